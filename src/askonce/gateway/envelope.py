"""What the headers of a cached request say: whose it is, and what it asks of the cache."""

from __future__ import annotations

from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from askonce.gateway.tenants import CREDENTIAL_HEADERS, joined
from askonce.policy.controls import CONTROL_HEADERS, read_controls
from askonce.policy.headers import telling

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from askonce.config import ControlConfig
    from askonce.policy.controls import Controls
    from askonce.ports import Headers

Pair = tuple[bytes, bytes]

_LONGEST_REMEMBERED = 2048
"""Bytes of headers; callers choose them, so longer ones are read anew each time."""


class Envelope(NamedTuple):
    """The headers' part of a request."""

    controls: Controls
    partition: bytes
    """32 bytes that differ with the caller's credential and with whatever else may tell."""
    author: bytes
    """Who writes what comes of this; empty where nobody asks."""


def envelope_reader(
    policy: ControlConfig,
    partition: Callable[[bytes, bytes], bytes],
    ignored_headers: Sequence[str],
    author: Callable[[bytes], bytes] = lambda _: b"",
) -> Callable[[Headers], Envelope]:
    """A function from raw headers to their envelope; remembers what it has read.

    The function raises RequestError for a control without meaning.
    """
    tells = telling(ignored_headers)

    @lru_cache(maxsize=4096)
    def read(pairs: tuple[Pair, ...]) -> Envelope:
        controls = [pair for pair in pairs if pair[0] in CONTROL_HEADERS]
        credential = joined(pair for pair in pairs if pair[0] in CREDENTIAL_HEADERS)
        known = CONTROL_HEADERS | CREDENTIAL_HEADERS
        others = sorted((pair for pair in pairs if pair[0] not in known), key=itemgetter(0))
        return Envelope(
            read_controls(controls, policy),
            partition(credential, joined(others)),
            author(credential),
        )

    def envelope(headers: Headers) -> Envelope:
        pairs = tuple([pair for pair in headers if pair[0] in CONTROL_HEADERS or tells(pair[0])])
        short = sum([len(value) for _, value in pairs]) <= _LONGEST_REMEMBERED
        return read(pairs) if short else read.__wrapped__(pairs)

    return envelope

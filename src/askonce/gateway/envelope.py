"""What the headers of a cached request say: whose it is, and what it asks of the cache."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from askonce.gateway.tenants import CREDENTIAL_HEADERS
from askonce.policy.controls import CONTROL_HEADERS, read_controls

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
    tenant: bytes
    """The partition of the caller's credential, 32 bytes."""
    key_headers: tuple[Pair, ...]
    """Headers that can change an answer, sorted."""


def envelope_reader(
    policy: ControlConfig, partition: Callable[[bytes], bytes], key_headers: Sequence[str]
) -> Callable[[Headers], Envelope]:
    """A function from raw headers to their envelope; remembers what it has read.

    The function raises RequestError for a control without meaning.
    """
    in_key = frozenset(name.lower().encode() for name in key_headers)
    telling = CONTROL_HEADERS | CREDENTIAL_HEADERS | in_key

    @lru_cache(maxsize=4096)
    def read(pairs: tuple[Pair, ...]) -> Envelope:
        told = (pair for pair in pairs if pair[0] in CREDENTIAL_HEADERS)
        credential = b"\0".join(part for pair in told for part in pair)
        return Envelope(
            read_controls((pair for pair in pairs if pair[0] in CONTROL_HEADERS), policy),
            partition(credential),
            tuple(sorted(pair for pair in pairs if pair[0] in in_key)),
        )

    def envelope(headers: Headers) -> Envelope:
        pairs = tuple([pair for pair in headers if pair[0] in telling])
        short = sum([len(value) for _, value in pairs]) <= _LONGEST_REMEMBERED
        return read(pairs) if short else read.__wrapped__(pairs)

    return envelope

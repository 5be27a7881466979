"""How an answer says how it was served: `Cache-Status` (RFC 9211), `Age`, `X-Cache`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.cache.ask import Collapsed, Live

if TYPE_CHECKING:
    from collections.abc import Iterable

    from askonce.cache.flight import Head
    from askonce.flow import GiveUp, Hit

Pairs = list[tuple[bytes, bytes]]

_HIT = (b"x-cache", b"HIT")
_MISS = (b"x-cache", b"MISS")
_BYPASS = (b"x-cache", b"BYPASS")
_CACHE_STATUS = b"cache-status"


def marks_of_hit(hit: Hit, *, debug: bool) -> Pairs:
    """The marks of an answer from the cache."""
    status = b"AskOnce; hit; ttl=%d; detail=%s" % (hit.ttl, hit.tier.encode())
    marks = [(_CACHE_STATUS, status), (b"age", b"%d" % hit.age), _HIT]
    if debug:
        marks[0] = (_CACHE_STATUS, status + b'; key="%s"' % hit.entry.key.hex().encode())
        if hit.score is not None:
            marks.append((b"x-askonce-score", b"%.4f" % hit.score))
    return marks


def marks_of_engine(reply: Live | Collapsed, *, key: bytes, debug: bool) -> Pairs:
    """The marks of an answer that the engine computed for this request or an equal one."""
    head = reply.head
    status = _forwarded(head)
    if head.stored:
        status += b"; stored"
    if isinstance(reply, Collapsed) or reply.collapsed:
        status += b"; collapsed"
    status += _detail(head.details)
    if debug:
        status += b'; key="%s"' % key.hex().encode()
    passed_by = head.forward in {"bypass", "request"}
    return [(_CACHE_STATUS, status), _BYPASS if passed_by else _MISS]


def marks_of_refusal(outcome: GiveUp) -> Pairs:
    """The marks of a request that wanted only a cached answer and found none."""
    return [(_CACHE_STATUS, b"AskOnce" + _detail((*outcome.details, "only_if_cached"))), _MISS]


def _forwarded(head: Head) -> bytes:
    return b"AskOnce; fwd=%s; fwd-status=%d" % (head.forward.encode(), head.status)


def _detail(details: Iterable[str]) -> bytes:
    joined = ",".join(details)
    return b'; detail="%s"' % joined.encode() if joined else b""

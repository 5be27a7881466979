"""Request headers that cannot change an answer; every other one that is forwarded is in the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_BY_REASON: Final = {
    "the form of the transport": (
        "accept",
        "accept-charset",
        "accept-encoding",
        "connection",
        "content-length",
        "content-type",
        "date",
        "expect",
        "host",
        "keep-alive",
        "max-forwards",
        "pragma",
        "priority",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "upgrade-insecure-requests",
        "via",
    ),
    "names the client program or page": (
        "dnt",
        "from",
        "http-referer",
        "origin",
        "referer",
        "user-agent",
        "x-client-name",
        "x-client-version",
        "x-title",
    ),
    "names one request for logs and traces": (
        "b3",
        "baggage",
        "idempotency-key",
        "request-id",
        "sentry-trace",
        "traceparent",
        "tracestate",
        "uber-trace-id",
        "x-amzn-trace-id",
        "x-cloud-trace-context",
        "x-correlation-id",
        "x-request-id",
        "x-request-start",
    ),
    "tells the way through proxies": (
        "cf-connecting-ip",
        "cf-ipcountry",
        "cf-ray",
        "cf-visitor",
        "forwarded",
        "true-client-ip",
        "x-real-ip",
    ),
    "not forwarded on a cached route": ("cache-control", "cookie"),
}
WITHOUT_EFFECT: Final = {
    name.encode(): reason for reason, names in _BY_REASON.items() for name in names
}
"""Header names, each with the reason."""

PREFIXES_WITHOUT_EFFECT: Final = {
    b"proxy-": "hop by hop",
    b"sec-": "the browser's own",
    b"x-askonce-": "read by AskOnce and not forwarded",
    b"x-b3-": "traces",
    b"x-datadog-": "traces",
    b"x-envoy-": "tells the way through proxies",
    b"x-forwarded-": "tells the way through proxies",
    b"x-stainless-": "names the client program",
}

_REMEMBERED: Final = 1024
"""Bound of remembered names; callers choose them."""


def telling(ignored: Iterable[str]) -> Callable[[bytes], bool]:
    """Whether a header (by its lower-case name) may change an answer; `ignored` names more."""
    without = {*WITHOUT_EFFECT, *(name.lower().encode() for name in ignored)}
    prefixes = tuple(PREFIXES_WITHOUT_EFFECT)
    known: dict[bytes, bool] = {}

    def tells(name: bytes) -> bool:
        found = known.get(name)
        if found is None:
            if len(known) >= _REMEMBERED:
                known.clear()
            found = known[name] = name not in without and not name.startswith(prefixes)
        return found

    return tells

"""Every error AskOnce raises, as one tree.

AskOnceError
├── ConfigError              the configuration cannot be used
│   └── MissingExtra         a driver is not installed; names the extra that brings it
├── RequestError             the caller's fault; carries the HTTP status to answer with
├── UpstreamError            the engine could not be asked
│   ├── UpstreamUnreachable  no connection, or it broke before an answer began (502)
│   ├── UpstreamTimeout      no answer in time (504)
│   └── UpstreamBroken       the answer broke off after it began (502)
├── CacheFault               a cache part failed; never reaches a caller
│   ├── StoreError           an exact store failed
│   ├── VectorIndexError     a vector index failed
│   ├── EmbedderError        an embedder failed
│   │   ├── EmbedderBusy     its queue is full: shed, not broken
│   │   └── TextTooLong      the text is longer than its window
│   ├── VerifierError        a verifier failed
│   │   └── VerifierBusy     its queue is full: shed, not broken
│   └── EntryUnreadable      stored bytes are not a valid entry
└── AnswerUnusable           an engine answer cannot be cached; carries the reason
"""

from __future__ import annotations

import traceback


class AskOnceError(Exception):
    """The root of the tree."""


class ConfigError(AskOnceError):
    """The configuration cannot be used."""


class MissingExtra(ConfigError):
    """A driver is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package} is not installed; install askonce[{extra}]")
        self.package = package
        self.extra = extra


class RequestError(AskOnceError):
    """The caller's fault, in the terms of OpenAI's error object."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        type: str = "invalid_request_error",  # noqa: A002 - the field's name in the wire format
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.type = type
        self.code = code
        self.param = param


class UpstreamError(AskOnceError):
    """The engine could not be asked."""

    status = 502
    code = "upstream_error"


class UpstreamUnreachable(UpstreamError):
    """No connection, or it broke before an answer began."""

    code = "upstream_unreachable"


class UpstreamTimeout(UpstreamError):
    """No answer in time."""

    status = 504
    code = "upstream_timeout"


class UpstreamBroken(UpstreamError):
    """The answer broke off after it began."""

    code = "upstream_broken"


class CacheFault(AskOnceError):
    """A cache part failed; it costs a miss, never a request."""


class StoreError(CacheFault):
    """An exact store failed."""


class VectorIndexError(CacheFault):
    """A vector index failed."""


class EmbedderError(CacheFault):
    """An embedder failed."""


class EmbedderBusy(EmbedderError):
    """Its queue is full: the text was shed, nothing is broken."""


class TextTooLong(EmbedderError):
    """The text is longer than the model's window."""


class VerifierError(CacheFault):
    """A verifier failed."""


class VerifierBusy(VerifierError):
    """Its queue is full: the pair was shed, nothing is broken."""


class EntryUnreadable(CacheFault):
    """Stored bytes are not a valid entry."""


class AnswerUnusable(AskOnceError):
    """An engine answer cannot be cached."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def places(error: BaseException) -> str:
    """Where an error happened, for a log; without its message, which may quote a prompt."""
    return "".join(traceback.format_tb(error.__traceback__))

"""Errors as the caller's dialect tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.errors import RequestError, UpstreamError

if TYPE_CHECKING:
    from askonce.errors import AskOnceError
    from askonce.gateway.http import Scope

_encode = msgspec.json.Encoder().encode
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
}


def error_of(error: AskOnceError) -> RequestError:
    """Any error in the terms of a response; what is not meant for callers becomes a plain 500."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, UpstreamError):
        return RequestError(str(error), status=error.status, type="upstream_error", code=error.code)
    return internal_error()


def internal_error() -> RequestError:
    """The error behind which an unforeseen one hides."""
    return RequestError("internal error", status=500, type="server_error", code="internal_error")


def error_body(error: RequestError, scope: Scope) -> bytes:
    """The error object as JSON, in Anthropic's shape under `/v1/messages`, else in OpenAI's."""
    if scope["path"].startswith("/v1/messages"):
        kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
        return _encode({"type": "error", "error": {"type": kind, "message": error.message}})
    fields = {
        "message": error.message,
        "type": error.type,
        "param": error.param,
        "code": error.code,
    }
    return _encode({"error": fields})

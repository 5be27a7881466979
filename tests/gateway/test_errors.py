"""Errors in the caller's dialect."""

from __future__ import annotations

import json

import pytest

from askonce.errors import AskOnceError, RequestError, StoreError, UpstreamError, UpstreamTimeout
from askonce.gateway.errors import error_body, error_of


def test_openai_shape() -> None:
    """Message, type, param and code, always all four."""
    error = RequestError("no", status=404, code="c", param="p")
    body = json.loads(error_body(error, {"path": "/v1/chat/completions"}))
    assert body == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "p", "code": "c"}
    }


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid_request_error"), (413, "request_too_large"), (502, "api_error")],
)
def test_anthropic_shape(status: int, kind: str) -> None:
    """Under `/v1/messages` the type follows from the status."""
    body = json.loads(error_body(RequestError("no", status=status), {"path": "/v1/messages"}))
    assert body == {"type": "error", "error": {"type": kind, "message": "no"}}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError("a", status=413, code="x"), 413, "x"),
        (UpstreamError("a"), 502, "upstream_error"),
        (UpstreamTimeout("a"), 504, "upstream_timeout"),
        (StoreError("a path"), 500, "internal_error"),
    ],
)
def test_every_error_has_a_status(error: AskOnceError, status: int, code: str) -> None:
    """What is not meant for callers shows nothing of itself."""
    told = error_of(error)
    assert (told.status, told.code) == (status, code)
    assert "path" not in told.message

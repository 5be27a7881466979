"""`POST /askonce/feedback`: a caller says whether an answer it got from the cache was right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.errors import CacheFault, RequestError
from askonce.gateway.http import read_body, send_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.cache.learning import Learning
    from askonce.gateway.envelope import Envelope
    from askonce.gateway.http import Receive, Scope, Send
    from askonce.ports import Headers

PATH = "/askonce/feedback"
_LONGEST = 4096


class Word(msgspec.Struct, frozen=True):
    """The body."""

    request_id: str
    """As in the answer's `X-Request-ID`."""
    verdict: Literal["right", "wrong"]


_decode = msgspec.json.Decoder(Word).decode


class FeedbackRoute:
    """Takes a caller's word on answers by meaning, its own partition's alone."""

    def __init__(self, learning: Learning, read_envelope: Callable[[Headers], Envelope]) -> None:
        """The envelope says whose word it is."""
        self._learning = learning
        self._read_envelope = read_envelope

    async def __call__(self, http: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises RequestError."""
        body = await read_body(http, receive, _LONGEST)
        try:
            word = _decode(body)
        except msgspec.MsgspecError:
            raise RequestError("send request_id, and right or wrong as verdict") from None
        tenant = self._read_envelope(http["headers"]).tenant
        agreement: Literal["same", "different"] = "same" if word.verdict == "right" else "different"
        try:
            known = await self._learning.hear(word.request_id, agreement, tenant)
        except CacheFault:
            raise RequestError(
                "the evidence log cannot be written",
                status=503,
                type="server_error",
                code="log_unwritable",
            ) from None
        if not known:
            raise RequestError(
                "no answer by meaning of yours has this id", status=404, code="unknown_request"
            )
        await send_json(send, 202, b'{"status":"noted"}')

"""Copies what callers and the gateway say to each other into the request log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.errors import RequestError
from askonce.gateway.http import header, is_encoded
from askonce.policy.controls import CONTROL_HEADERS
from askonce.telemetry.recorder import Call
from askonce.telemetry.secrets import query_without_secrets

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.gateway.envelope import Envelope
    from askonce.gateway.http import Handler, Message, Receive, Scope, Send
    from askonce.ports import Clock, Headers
    from askonce.telemetry.recorder import Recorder

ENDPOINTS = frozenset({"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"})
"""Paths whose calls are recorded, POST alone; the answer of a stream on the first alone."""
_TENANT_DIGITS = 16


class Recording:
    """Stands around handlers while calls are recorded."""

    def __init__(
        self, recorder: Recorder, read_envelope: Callable[[Headers], Envelope], clock: Clock
    ) -> None:
        """read_envelope: as the cached route has it."""
        self._recorder = recorder
        self._read_envelope = read_envelope
        self._clock = clock

    def around(self, handler: Handler) -> Handler:
        """The handler, its calls recorded."""

        async def recorded(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["method"] != "POST" or scope["path"] not in ENDPOINTS:
                await handler(scope, receive, send)
                return
            if _forbids(scope["headers"]):
                self._recorder.count("no_store")
                await handler(scope, receive, send)
                return
            copy = _Copy(receive, send, self._recorder.max_call_bytes)
            time, begun = self._clock.now(), self._clock.monotonic()
            try:
                await handler(scope, copy.receive, copy.send)
            finally:
                if copy.status:
                    self._hand_in(scope, copy, time, self._clock.monotonic() - begun)

        return recorded

    def _hand_in(self, scope: Scope, copy: _Copy, time: float, seconds: float) -> None:
        if is_encoded(scope["headers"]):
            self._recorder.count("unreadable")
            return
        try:
            envelope = self._read_envelope(scope["headers"])
        except RequestError:
            return
        query = query_without_secrets(scope["query_string"].decode("latin-1"))
        self._recorder.take(
            Call(
                time=time,
                seconds=seconds,
                endpoint=f"{scope['path']}?{query}" if query else scope["path"],
                tenant=envelope.partition.hex()[:_TENANT_DIGITS],
                namespace=envelope.controls.namespace,
                headers=_controls(scope["headers"]),
                status=copy.status,
                served=_served(copy.headers),
                request=copy.request,
                answer=copy.answer,
                streamed=_is_stream(copy.headers),
            )
        )


class _Copy:
    """Receive and send, with copies of the bodies up to a bound; past it they only grow a byte."""

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._limit = limit
        self._asked: list[bytes] = []
        self._told: list[bytes] = []
        self._sizes = [0, 0]
        self._whole = False
        self.status = 0
        self.headers: Headers = ()

    @property
    def request(self) -> bytes:
        return b"".join(self._asked)

    @property
    def answer(self) -> bytes:
        """Empty when it broke off."""
        return b"".join(self._told) if self._whole else b""

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._keep(0, self._asked, message.get("body", b""))
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = tuple(message["headers"])
        else:
            self._keep(1, self._told, message.get("body", b""))
            self._whole = self._whole or not message.get("more_body", False)
        await self._send(message)

    def _keep(self, which: int, pieces: list[bytes], piece: bytes) -> None:
        """What is past the bound by a byte is too long to be recorded; no more of it is kept."""
        room = self._limit + 1 - self._sizes[which]
        if piece and room > 0:
            pieces.append(bytes(piece[:room]))
            self._sizes[which] += min(len(piece), room)


def _forbids(headers: Headers) -> bool:
    """Whether the caller wants nothing kept, whatever the operator allows callers to ask."""
    asked = [value.lower() for name, value in headers if name == b"cache-control"]
    return any(b"no-store" in value for value in asked)


def _controls(headers: Headers) -> dict[str, str]:
    return {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in headers
        if name in CONTROL_HEADERS
    }


def _served(headers: Headers) -> str:
    status = header(headers, b"cache-status")
    if not status.startswith(b"AskOnce; hit"):
        return "engine"
    return "semantic" if b"detail=semantic" in status else "exact"


def _is_stream(headers: Headers) -> bool:
    return header(headers, b"content-type").startswith(b"text/event-stream")

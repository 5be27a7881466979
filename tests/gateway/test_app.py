"""Routes, request ids and what becomes of faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from askonce.errors import ConfigError
from askonce.gateway.app import Gateway
from askonce.testing.answers import Reply
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from askonce.gateway.http import Message

    Stage = Callable[..., AbstractAsyncContextManager[Any]]

pytestmark = pytest.mark.anyio


async def test_websockets_are_refused(stage: Stage) -> None:
    """A WebSocket handshake is answered with 501."""
    async with stage(FakeEngine()) as here:
        handshake = ("connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13")
        answer = await here.ask("GET", "/v1/realtime", b"", *handshake)
    assert (answer.status, answer.json["error"]["code"]) == (501, "not_implemented")


async def test_unknown_routes_and_methods_are_told(stage: Stage) -> None:
    """404 and 405 in OpenAI's shape; HEAD of a GET route works."""
    async with stage(FakeEngine()) as here:
        unknown = await here.ask("GET", "/nowhere")
        wrong = await here.ask("POST", "/healthz", b"{}")
        head = await here.ask("HEAD", "/healthz")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "unknown_path")
    assert (wrong.status, wrong.json["error"]["code"]) == (405, "method_not_allowed")
    assert head.status == 200


async def test_every_answer_has_a_request_id(stage: Stage) -> None:
    """The gateway's id, unless the engine gave one."""
    named = Reply(headers=((b"x-request-id", b"theirs"),))
    async with stage(FakeEngine(Reply(), named)) as here:
        answers = [await here.ask("GET", path) for path in ("/healthz", "/v1/a", "/v1/b", "/c")]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert ids == ["req_0", "req_1", "theirs", "req_3"]


async def test_a_fault_is_a_plain_500(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    """An unforeseen error shows neither to the caller nor in the log what a request said."""
    async with stage(FakeEngine()) as here:
        answer = await here.ask("GET", "/v1/fails?my-secret-prompt")
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal_error")
    assert "LookupError" in caplog.text
    assert "secret" not in caplog.text + answer.body.decode()


async def test_an_escape_is_no_route(stage: Stage) -> None:
    """An escaped path is not what its plain form is: under /v1/ the engine reads it, else 404."""
    async with stage(FakeEngine()) as here:
        passed = await here.ask("GET", "/v1/fai%6cs")
        for path in ("/%68ealthz", "/%761/x", "/v%31/x", "/v1%2fx"):
            answer = await here.ask("GET", path)
            assert (answer.status, answer.json["error"]["code"]) == (404, "unknown_path"), path
        assert [asked.path for asked in here.engine.asked] == ["/v1/fai%6cs"]
    assert passed.status == 200


class Asgi:
    """A server's side of one scope."""

    def __init__(self, *messages: str) -> None:
        self.waiting = list(messages)
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        """The next message."""
        return {"type": self.waiting.pop(0)}

    async def send(self, message: Message) -> None:
        """Remember what came."""
        self.sent.append(message)


def bare_gateway(startup: Callable[[], Any], shutdown: Callable[[], Any]) -> Gateway:
    """A gateway without routes."""

    async def rest(scope: object, receive: object, send: object) -> None:
        raise AssertionError("not asked")

    return Gateway({}, rest, new_id=lambda: "id", startup=startup, shutdown=shutdown)


async def test_lifespan_runs_the_hooks() -> None:
    """Startup and shutdown hooks run in their turn."""
    ran: list[str] = []

    async def up() -> None:
        ran.append("up")

    async def down() -> None:
        ran.append("down")

    asgi = Asgi("lifespan.startup", "lifespan.shutdown")
    await bare_gateway(up, down)({"type": "lifespan"}, asgi.receive, asgi.send)
    assert ran == ["up", "down"]
    assert [message["type"] for message in asgi.sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


async def test_a_failed_start_is_told() -> None:
    """A configuration that cannot be used stops the server with its message."""

    async def up() -> None:
        raise ConfigError("no such file")

    asgi = Asgi("lifespan.startup")
    await bare_gateway(up, up)({"type": "lifespan"}, asgi.receive, asgi.send)
    assert asgi.sent == [{"type": "lifespan.startup.failed", "message": "no such file"}]


async def test_websocket_scopes_are_closed() -> None:
    """With 501 where the server can say it, otherwise with a reason."""
    extended, plain = Asgi("websocket.connect"), Asgi("websocket.connect")
    gateway = bare_gateway(Asgi, Asgi)
    scope: dict[str, Any] = {"type": "websocket", "path": "/v1/realtime"}
    await gateway(scope, plain.receive, plain.send)
    scope["extensions"] = {"websocket.http.response": {}}
    await gateway(scope, extended.receive, extended.send)
    assert plain.sent[0]["type"] == "websocket.close"
    assert extended.sent[0]["status"] == 501
    assert b"not_implemented" in extended.sent[1]["body"]

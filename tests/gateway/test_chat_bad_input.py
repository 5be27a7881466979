"""Requests that are wrong get a clear error, and the worker is as before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.house import AUTH, CHAT, body_of, open_house

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.house import House

pytestmark = pytest.mark.anyio

DEEP = b'{"model":"m","messages":[{"role":"user","content":"x"}],"a":' + b"[" * 100_000
BAD: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "invalid_json"),
    "no json": (b"{nope", "invalid_json"),
    "half": (b'{"model":"m","messages":[', "invalid_json"),
    "two values": (b"{} {}", "invalid_json"),
    "an array": (b"[]", "invalid_type"),
    "null": (b"null", "invalid_type"),
    "no model": (b'{"messages":[{"role":"user","content":"x"}]}', "invalid_type"),
    "model no string": (b'{"model":1,"messages":[{"role":"user"}]}', "invalid_type"),
    "no messages": (b'{"model":"m"}', "invalid_type"),
    "messages no list": (b'{"model":"m","messages":"hello"}', "invalid_type"),
    "message no object": (b'{"model":"m","messages":["hello"]}', "invalid_type"),
    "no role": (b'{"model":"m","messages":[{"content":"x"}]}', "invalid_type"),
    "stream no bool": (b'{"model":"m","stream":1,"messages":[{"role":"user"}]}', "invalid_type"),
    "bad utf-8": (b'{"model":"m","messages":[{"role":"user","content":"\xff"}]}', "invalid_json"),
    "surrogate": (
        b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}',
        "invalid_json",
    ),
    "duplicate": (b'{"model":"m","model":"n","messages":[{"role":"user"}]}', "duplicate_key"),
    "nan": (b'{"model":"m","temperature":NaN,"messages":[{"role":"user"}]}', "invalid_json"),
    "infinite": (b'{"model":"m","temperature":1e999,"messages":[{"role":"user"}]}', "invalid_json"),
    "deep": (DEEP, "invalid_json"),
    "deep and whole": (DEEP + b"]" * 100_000 + b"}", "invalid_json"),
    "byte order mark": (b'\xef\xbb\xbf{"model":"m","messages":[{"role":"user"}]}', "invalid_json"),
}


async def unharmed(house: House) -> None:
    """The gateway serves as before, and holds nothing of what was wrong."""
    answers = [await house.ask(body_of()) for _ in range(2)]
    assert [answer.status for answer in answers] == [200, 200]
    assert answers[1].headers["x-cache"] == "HIT"
    assert (await house.parts.store.stats()).entries == 1


async def test_bodies_that_are_no_request(tmp_path: Path) -> None:
    """Each is 400 in OpenAI's shape with a code and a request id, on a connection that lives on."""
    async with open_house(tmp_path) as house:
        async with house.caller() as caller:
            for name, (body, code) in BAD.items():
                answer = await caller.ask("POST", CHAT, body, AUTH)
                assert answer.status == 400, name
                error = answer.json["error"]
                assert set(error) == {"message", "type", "param", "code"}, name
                assert (error["type"], error["code"]) == ("invalid_request_error", code), name
                assert answer.headers["x-request-id"], name
                assert "cache-status" not in answer.headers
        assert not house.asked
        refused = await house.metric('askonce_requests_total{outcome="client_error",tier="none"}')
        assert refused == len(BAD)
        await unharmed(house)


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_a_body_that_is_too_large(tmp_path: Path, framing: str) -> None:
    """Past the limit it is 413, whether the length was told or not."""
    body = b"x" * 3000
    async with open_house(tmp_path, server={"max_body_bytes": 1000}) as house:
        async with house.caller() as caller:
            head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\n"
            if framing == "length":
                await caller.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            else:
                wrapped = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
                await caller.send(f"{head}transfer-encoding: chunked\r\n\r\n".encode() + wrapped)
            answer = await caller.answer()
        assert answer.status == 413
        assert answer.json["error"]["code"] == "body_too_large"
        assert not house.asked
        await unharmed(house)


async def test_a_body_that_stops_half_way(tmp_path: Path) -> None:
    """A caller that leaves in the middle of its request costs nothing."""
    async with open_house(tmp_path) as house:
        for _ in range(3):
            async with house.caller() as caller:
                head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\r\n"
                await caller.send(head.encode() + b'{"model":')
        assert not house.asked
        await unharmed(house)


async def test_paths_and_methods_that_are_not_there(tmp_path: Path) -> None:
    """An unknown path is 404, a known one with another method 405, both in OpenAI's shape."""
    async with open_house(tmp_path) as house:
        for method, path, status, code in (
            ("POST", "/v2/chat", 404, "unknown_path"),
            ("GET", "/", 404, "unknown_path"),
            ("POST", "/metrics", 405, "method_not_allowed"),
            ("DELETE", "/healthz", 405, "method_not_allowed"),
            ("POST", "/v1/../chat", 404, "unknown_path"),
        ):
            answer = await house.send(method, path, b"")
            assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert not house.asked
        passed = await house.send("GET", CHAT, b"")
        assert passed.json["method"] == "GET"
        await unharmed(house)


async def test_what_is_not_http_is_refused(tmp_path: Path) -> None:
    """Bytes that are no request end their own connection alone."""
    async with open_house(tmp_path) as house:
        async with house.caller() as caller:
            await caller.send(b"\x16\x03\x01\x02\x00 not http at all\r\n\r\n")
            status, _ = await caller.head()
        assert status == 400
        await unharmed(house)

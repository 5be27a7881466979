"""A request body that stops coming is given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.gateway.house import CHAT, open_house

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("framing", ["content-length: 9", "content-length: 99999", "chunked"])
@pytest.mark.parametrize("path", [CHAT, "/v1/files"])
async def test_a_body_that_stalls_is_a_408(tmp_path: Path, path: str, framing: str) -> None:
    """On every route, in OpenAI's shape, and the connection ends."""
    how = "transfer-encoding: chunked" if framing == "chunked" else framing
    start = "1\r\na\r\n" if framing == "chunked" else "a"
    server = {"body_timeout": 0.2}
    async with open_house(tmp_path, server=server) as house, house.caller() as caller:
        await caller.send(f"POST {path} HTTP/1.1\r\nhost: g\r\n{how}\r\n\r\n{start}".encode())
        answer = await caller.answer()
        assert (answer.status, answer.json["error"]["code"]) == (408, "body_timeout")
        assert await caller.at_end()


async def test_a_slow_body_that_goes_on_is_read(tmp_path: Path) -> None:
    """Only the time between two pieces is bounded; an answer may take longer."""
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
    head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n"
    async with (
        open_house(tmp_path, server={"body_timeout": 0.3}) as house,
        house.caller() as caller,
    ):
        await caller.send(head.encode())
        for at in range(0, len(body), 8):
            await asyncio.sleep(0.1)
            await caller.send(body[at : at + 8])
        assert (await caller.answer()).status == 200

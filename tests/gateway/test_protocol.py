"""What comes around a body is bounded, in time and memory."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

import pytest
from tests.gateway.house import CHAT, body_of, open_house

from askonce.gateway.protocol import LINGER, MAX_HEAD, MAX_HEADERS

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.testing.caller import Answer

pytestmark = pytest.mark.anyio

START = b"GET /healthz HTTP/1.1\r\nhost: g\r\n"
CHUNKED = b"POST /v1/x HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n"


async def answer_to(data_dir: Path, *pieces: bytes) -> Answer:
    """The answer to bytes that come in these pieces."""
    async with open_house(data_dir) as house, house.caller() as caller:
        for piece in pieces:
            await caller.send(piece)
            await asyncio.sleep(0.02)
        return await caller.answer()


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (START + b"x: " + b"a" * (MAX_HEAD - 100) + b"\r\n\r\n", 200),
        (START + b"x: " + b"a" * MAX_HEAD + b"\r\n\r\n", 431),
        (START + b"x: " + b"a" * MAX_HEAD, 431),
        (START + b"x: y\r\n" * (MAX_HEADERS - 1) + b"\r\n", 200),
        (START + b"x: y\r\n" * MAX_HEADERS + b"\r\n", 431),
        (START + b"x: y\r\n" * (MAX_HEADERS + 1), 431),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_a_head_is_bounded(tmp_path: Path, head: bytes, status: int) -> None:
    """Bytes and number of headers, finished or not; the refusal has OpenAI's shape."""
    answer = await answer_to(tmp_path, head)
    codes = {200: None, 431: "head_too_large", 400: "invalid_http"}
    assert answer.status == status
    assert answer.json.get("error", {}).get("code") == codes[status]


async def test_a_refused_caller_reads_why_and_is_closed(tmp_path: Path) -> None:
    """What it sends after the refusal is dropped, and the connection ends soon."""
    async with open_house(tmp_path) as house, house.caller() as caller:
        await caller.send(START + b"x: " + b"a" * MAX_HEAD)
        for _ in range(20):
            await caller.send(b"a" * 65536)
        assert (await caller.answer()).status == 431
        async with asyncio.timeout(LINGER + 1):
            assert await caller.at_end()


@pytest.mark.slow
async def test_a_large_head_costs_no_quadratic_time(tmp_path: Path) -> None:
    """One header of 64 MiB is refused in well under a second of work."""
    async with open_house(tmp_path) as house, house.caller() as caller:
        await caller.send(START + b"x: ")
        began = time.process_time()
        with contextlib.suppress(ConnectionError):
            for _ in range(1024):
                await caller.send(b"a" * 65536)
        assert time.process_time() - began < 1


@pytest.mark.parametrize("tail", [b"1;" + b"a" * 300_000, b"0\r\nx: " + b"a" * 300_000])
async def test_extensions_and_trailers_are_bounded(tmp_path: Path, tail: bytes) -> None:
    """An answer cannot be given any more where a handler is at work, so the connection ends."""
    async with open_house(tmp_path) as house, house.caller() as caller:
        await caller.send(CHUNKED + b"1\r\na\r\n")
        await asyncio.sleep(0.05)
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(tail), 10_000):
                await caller.send(tail[start : start + 10_000])
                await asyncio.sleep(0.001)
        async with asyncio.timeout(5):
            assert await caller.at_end()


async def test_trailers_are_no_headers(tmp_path: Path) -> None:
    """What comes behind a body is not forwarded as if it had stood before it."""
    async with open_house(tmp_path) as house, house.caller() as caller:
        await caller.send(CHUNKED + b"1\r\na\r\n0\r\nx-smuggled: 1\r\n\r\n")
        assert (await caller.answer()).status == 200
        assert b"x-smuggled" not in dict(house.asked[0].headers)


async def test_a_large_body_is_no_head(tmp_path: Path) -> None:
    """Bodies and several requests on one connection do not add up."""
    async with open_house(tmp_path) as house, house.caller() as caller:
        for _ in range(3):
            text = str(body_of("a" * 300_000)).replace("'", '"').encode()
            assert (await caller.ask("POST", CHAT, text)).status == 200

"""Replicas over Memcached: one's answer is the other's hit, and a dead server fails no request."""

from __future__ import annotations

import asyncio
import signal
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.house import body_of, marks, open_house
from tests.servers.memcached import cluster, url_of

from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

KEY = "ab" * 32
SECRET = {"secret": "the same for all replicas of one cache"}


async def hits(house: Any, answers: int) -> int:
    """How many of so many questions are answered from the cache; all are answered."""
    found = 0
    for number in range(answers):
        answer = await house.ask(body_of(f"Question {number}?"))
        assert answer.status == 200
        assert f"Question {number}?" in answer.body.decode()
        found += marks(answer)[1] == "hit"
    return found


@pytest.mark.parametrize("keys", [(), (KEY,)])
async def test_two_replicas_are_one_cache(tmp_path: Path, keys: tuple[str, ...]) -> None:
    """Plain or encrypted: what one has asked the other knows; a server less is a share less."""
    with ExitStack() as stack:
        servers = cluster(stack, tmp_path, 3)
        exact = {"store": url_of(servers), "seal_keys": keys, "memory_bytes": 0, "deadline": 0.5}
        more: dict[str, Any] = {"exact": exact, "tenants": SECRET, "upstream": ({"name": "e"},)}
        async with (
            FakeEngine(otherwise=Chat()) as engine,
            open_house(tmp_path / "a", engine, started=True, **more) as one,
            open_house(tmp_path / "b", engine, started=True, **more) as other,
        ):
            assert await hits(one, 20) == 0
            assert await hits(other, 20) == 20
            servers[0].server.kill()
            await asyncio.sleep(0.1)
            assert 2 < await hits(other, 20) < 20
            servers[1].server.signal(signal.SIGSTOP)
            assert await hits(other, 20) < 20
            servers[1].server.signal(signal.SIGCONT)
            servers[2].server.kill()
            servers[1].server.kill()
            assert await hits(one, 20) == 0

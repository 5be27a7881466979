"""Shares of tenants and second sight, over the real path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.house import AUTH, body_of, marks, open_house

from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

LONG = Chat(text="word " * 300)
ONE, OTHER = AUTH, "Authorization: Bearer sk-other"


async def test_an_answer_is_stored_when_its_request_comes_again(tmp_path: Path) -> None:
    """The first time it is refused by name; the second time stored; the third time served."""
    exact = {"admit": "second"}
    async with open_house(tmp_path, FakeEngine(otherwise=LONG), exact=exact) as house:
        stored = []
        for _ in range(4):
            answer = await house.ask(body_of("Once?"))
            await house.settled()
            stored.append(answer.headers["x-cache"])
        assert stored == ["MISS", "MISS", "HIT", "HIT"]
        refused = 'askonce_admission_refused_total{reason="first_sight"}'
        assert await house.metric(refused) == 1.0


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_tenant_evicts_its_own_alone(tmp_path: Path, store: str) -> None:
    """One that asks much loses its oldest answers; another's single answer stays."""
    exact = {"store": store, "tenant_bytes": 8000, "memory_bytes": 0}
    async with open_house(tmp_path, FakeEngine(otherwise=LONG), exact=exact) as house:
        await house.ask(body_of("Mine?"), auth=OTHER)
        await house.settled()
        for number in range(8):
            await house.ask(body_of(f"Number {number}?"), auth=ONE)
            await house.settled()
        assert marks(await house.ask(body_of("Mine?"), auth=OTHER))[1] == "hit"
        assert marks(await house.ask(body_of("Number 7?"), auth=ONE))[1] == "hit"
        assert marks(await house.ask(body_of("Number 0?"), auth=ONE))[1] != "hit"
        left = 'askonce_evictions_total{cause="tenant",part="store"}'
        assert await house.metric(left) >= 4.0

"""Entries are confirmed behind the answers, within bounds, and never against their will."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.canonical.test_entry import ENTRY

from askonce.cache.confirm import _WAITING, Confirmations, Gate, Wanted
from askonce.cache.steps import Steps
from askonce.canonical.answer import read_completion
from askonce.config import BreakerConfig
from askonce.events import Confirmation
from askonce.judges.rules import RulesJudge
from askonce.stores.hot import HotEntries
from askonce.stores.memory import MemoryStore
from askonce.testing.answers import Asked, Chat
from askonce.testing.clock import FakeClock
from askonce.testing.sink import RecordingSink
from askonce.tiers.exact import ExactTier
from askonce.units import UnixTime

if TYPE_CHECKING:
    from askonce.canonical.entry import Entry

pytestmark = pytest.mark.anyio


ASKED = Asked("POST", "/v1/chat/completions", (), b'{"model": "m", "messages": []}')


class Desk:
    """Confirmations over a store in memory."""

    def __init__(self, judge: RulesJudge | None = None) -> None:
        clock = FakeClock()
        self.sink = RecordingSink()
        store = MemoryStore(clock=clock, sink=self.sink, max_bytes=1_000_000)
        hot: HotEntries[Entry] = HotEntries(1_000_000)
        self.exact = ExactTier(store, hot, clock=clock, sink=self.sink)
        self.now = clock.now()
        self.known = Confirmations(
            Wanted(1, exact=False),
            exact=self.exact,
            writer=None,
            judge=judge or RulesJudge(),
            steps=Steps(BreakerConfig(), clock=clock, sink=self.sink),
            sink=self.sink,
        )

    def entry(self, text: str, author: bytes, key: bytes, **chat: object) -> Entry:
        """One that lives."""
        body = Chat(text=text, **chat)(ASKED).body  # type: ignore[arg-type] # by name
        return msgspec.structs.replace(
            ENTRY,
            key=key * 32,
            answer=read_completion(body),
            author=author,
            created_at=self.now,
            exact_until=UnixTime(self.now + 60),
            semantic_until=UnixTime(self.now + 60),
        )

    async def compare(self, old: Entry, fresh: Entry) -> list[str]:
        """What came of it."""
        self.known.saw([old], "When?", fresh)
        await self.known.settled()
        return [event.outcome for event in self.sink.of(Confirmation)]


async def test_the_same_answer_vouches() -> None:
    """The older entry is open from then on, in the store as well."""
    desk = Desk()
    old, fresh = desk.entry("At 9.", b"a", b"1"), desk.entry("At 9.", b"b", b"2")
    await desk.exact.keep(old)
    assert await desk.compare(old, fresh) == ["same"]
    stored = await desk.exact.find(old.key)
    assert stored is not None
    assert stored.vouched == (b"b",)
    assert desk.known.opens(stored, b"c", "semantic")


@pytest.mark.parametrize(("text", "outcome"), [("At 10.", "different"), ("", "unsure")])
async def test_another_answer_does_not(text: str, outcome: str) -> None:
    """Nor does one that cannot be compared."""
    desk = Desk()
    old, fresh = desk.entry("At 9.", b"a", b"1"), desk.entry("At 9.", b"b", b"2")
    fresh = desk.entry(text or "At", b"b", b"2", finish="stop" if text else "length")
    await desk.exact.keep(old)
    assert await desk.compare(old, fresh) == [outcome]
    stored = await desk.exact.find(old.key)
    assert stored is not None
    assert stored.vouched == ()


async def test_what_has_gone_meanwhile_stays_gone() -> None:
    """An entry that was taken away, or written anew, is not brought back."""
    desk = Desk()
    old, fresh = desk.entry("At 9.", b"a", b"1"), desk.entry("At 9.", b"b", b"2")
    assert await desk.compare(old, fresh) == []
    assert await desk.exact.find(old.key) is None
    newer = msgspec.structs.replace(old, created_at=UnixTime(desk.now + 1))
    await desk.exact.keep(newer)
    assert await desk.compare(old, fresh) == []


async def test_no_more_wait_than_a_bound() -> None:
    """A slow judge holds up so many comparisons, and they end with the cache."""

    class Slow(RulesJudge):
        async def judge(self, question: str, cached: str, fresh: str) -> None:  # type: ignore[override]
            """Wait for ever."""
            await asyncio.Event().wait()

    desk = Desk(Slow())
    old, fresh = desk.entry("At 9.", b"a", b"1"), desk.entry("At 9.", b"b", b"2")
    for _ in range(_WAITING + 5):
        desk.known.saw([old], "When?", fresh)
    assert len(desk.known._cases) == _WAITING
    await desk.known.close(0.0)
    assert not desk.known._cases


async def test_without_confirmations_all_is_open() -> None:
    """A gate that guards nothing withholds nothing."""
    gate = Gate(None, b"")
    assert gate.opens(ENTRY, "semantic")
    assert not gate.withholds(ENTRY, "exact")

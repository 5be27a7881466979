"""Replicas share engine calls, and nobody suffers when one of them fails."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.redis import Kind, Redis, redis, tell
from tests.stores.redis.fleet import WORDS, Engine, Replica, fleet, timed

from askonce.clock import SystemClock
from askonce.errors import StoreError, UpstreamBroken
from askonce.ports import Followed, Lead, SupportsFlights, SupportsWatch
from askonce.stores.envelope import Envelope, KeyRing, SealedStore
from askonce.stores.redis import flights
from askonce.stores.redis.frame import build
from askonce.stores.redis.wire import pack
from askonce.testing import RecordingSink
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

REPLACED = 2.0
"""Seconds after which a dead leader has been replaced."""
KEY, FLIGHT = b"k" * 32, b"f" * 32


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Redis]:
    """One server."""
    with redis("redis7", tmp_path) as found:
        yield found


@pytest.mark.parametrize("kind", ["redis7", "redis8", "valkey"])
async def test_four_hundred_equal_requests_are_one_call(kind: Kind, tmp_path: Path) -> None:
    """Over four replicas, half of them streamed, asked for over some time."""
    engine = Engine()
    draw = random.Random(5)

    async def one(replica: Replica, *, stream: bool) -> str:
        await asyncio.sleep(draw.random() * 0.25)
        return (await replica.get(stream=stream)).text

    with redis(kind, tmp_path) as server:
        async with fleet(server.url, engine) as replicas:
            runs = [one(replicas[n % 4], stream=n % 8 < 4) for n in range(400)]
            assert set(await asyncio.gather(*runs)) == {WORDS}
            assert engine.calls == 1
            await asyncio.gather(*(each.cache.settled() for each in replicas))
            assert (await replicas[0].store.stats()).entries == 1


async def test_followers_read_as_it_comes(server: Redis) -> None:
    """Whoever joins in the middle gets everything from the first byte on, and the rest live."""
    engine = Engine(pause=0.05)
    async with fleet(server.url, engine, 3) as (one, two, three):
        leading = asyncio.create_task(one.get(stream=True))
        await asyncio.sleep(0.2)
        stamps = []

        async def watch(replica: Replica) -> bytes:
            raw = b""
            async with replica.cache.answering(replica.ask("what", stream=True)) as reply:
                async for piece in reply.flight.pieces(usage=False):  # type: ignore[union-attr]
                    stamps.append(time.monotonic())
                    raw += piece
            return raw

        raws = await asyncio.gather(watch(two), watch(three))
        assert [*raws] == [(await leading).raw] * 2
        assert engine.calls == 1
        assert max(stamps) - min(stamps) > 0.3


@pytest.mark.parametrize("run", range(20))
@pytest.mark.timeout(30)
async def test_a_dead_leader_is_replaced(server: Redis, run: int) -> None:
    """At a random moment its replica is gone: at most one call more, no error, within bounds."""
    draw = random.Random(run)
    engine = Engine(pause=0.03)
    async with fleet(server.url, engine) as replicas:
        first = replicas[0]
        lost = [asyncio.create_task(first.get(stream=run % 2 == 0)) for _ in range(3)]
        while not first.leads:
            await asyncio.sleep(0.001)
        waits = [
            asyncio.create_task(timed(replicas[1 + n % 3], stream=(n + run) % 2 == 0))
            for n in range(12)
        ]
        await asyncio.sleep(draw.random() * 0.5)
        await first.crash(*lost)
        got = await asyncio.gather(*waits)
        assert {each.text for _, each in got} == {WORDS}
        assert engine.calls <= 2
        assert max(took for took, _ in got) < REPLACED + 1.5
        await asyncio.gather(*lost, return_exceptions=True)


async def test_a_second_answer_that_differs_is_no_rest_of_the_first(server: Redis) -> None:
    """Readers of half a stream get no other answer's second half; those who wait get all of it."""
    engine = Engine(pause=0.1)
    engine.varies = True
    async with fleet(server.url, engine, 3) as (one, two, three):
        lost = asyncio.create_task(one.get(stream=True))
        while not one.leads:
            await asyncio.sleep(0.001)
        half = asyncio.create_task(two.get(stream=True))
        whole = asyncio.create_task(three.get(stream=False))
        await asyncio.sleep(0.5)
        await one.crash(lost)
        with pytest.raises(UpstreamBroken):
            await half
        assert (await whole).text in {f"2: {WORDS}", f"3: {WORDS}"}
        await asyncio.gather(lost, return_exceptions=True)


async def test_a_leader_that_fails_is_followed_by_another(server: Redis) -> None:
    """An engine that refuses one caller may serve the next."""
    engine = Engine()
    engine.refuses = 1
    async with fleet(server.url, engine, 3) as replicas:
        got = await asyncio.gather(
            *(each.get(stream=True) for each in replicas), return_exceptions=True
        )
        texts = [each.text for each in got if not isinstance(each, BaseException)]
        assert len(texts) >= 2
        assert set(texts) == {WORDS}
        assert engine.calls == 2


async def test_without_the_server_each_asks_for_itself(server: Redis) -> None:
    """Local single flight is left, and nobody gets an error."""
    engine = Engine()
    async with fleet(server.url, engine) as replicas:
        server.server.kill()
        await asyncio.sleep(0.05)
        got = await asyncio.gather(
            *(each.get(stream=n % 2 == 0) for n in range(5) for each in replicas)
        )
        assert {each.text for each in got} == {WORDS}
        assert engine.calls == 4


@pytest.mark.parametrize("how", ["killed", "frozen"])
async def test_a_server_that_is_lost_in_flight_costs_no_request(server: Redis, how: str) -> None:
    """Followers in the middle of a stream go on with a call of their own."""
    engine = Engine(pause=0.05)
    async with fleet(server.url, engine, 2) as (one, two):
        leading = asyncio.create_task(one.get(stream=True))
        while not one.leads:
            await asyncio.sleep(0.001)
        following = [asyncio.create_task(two.get(stream=stream)) for stream in (True, False)]
        await asyncio.sleep(0.3)
        if how == "killed":
            server.server.kill()
        else:
            server.server.signal(signal.SIGSTOP)
        got = await asyncio.gather(leading, *following)
        assert {each.text for each in got} == {WORDS}
        assert engine.calls == 2


async def test_who_leaves_is_not_held(server: Redis) -> None:
    """A follower's own deadline counts; the flight goes on without it."""
    engine = Engine(first=1.0)
    async with fleet(server.url, engine, 2) as (one, two):
        leading = asyncio.create_task(one.get(stream=True))
        while not one.leads:
            await asyncio.sleep(0.001)
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await two.get(stream=True)
        assert time.monotonic() - began < 0.4
        assert (await leading).text == WORDS
        assert engine.calls == 1


async def test_a_late_leader_overwrites_nothing(server: Redis) -> None:
    """Who was replaced may put, but it has no effect while the newer call flies or is kept."""
    async with fleet(server.url, Engine(), 2) as (one, two):
        old = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(old, Lead)
        for lead in one.store._flights._leads[KEY]:
            lead._beat_at = float("inf")  # as in a process that stands still
        await asyncio.sleep(flights.LEASE + 0.1)
        new = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(new, Lead)
        await one.store.put(KEY, b"late", ttl=Seconds(60.0))
        assert await one.store.get(KEY) is None
        new.end(kept=True)
        await two.store.put(KEY, b"new", ttl=Seconds(60.0))
        third = await one.store.board(KEY, b"g" * 32, look=False)
        assert isinstance(third, Lead)
        old.end(kept=False)
        third.end(kept=False)
        assert await one.store.get(KEY) == b"new"


async def test_a_replaced_leader_that_puts_after_all_changes_nothing(server: Redis) -> None:
    """The kept answer has the newer fence."""
    async with fleet(server.url, Engine(), 2) as (one, two):
        old = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(old, Lead)
        for lead in one.store._flights._leads[KEY]:
            lead._beat_at = float("inf")
        await asyncio.sleep(flights.LEASE + 0.1)
        new = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(new, Lead)
        new.end(kept=True)
        await two.store.put(KEY, b"new", ttl=Seconds(60.0))
        await one.store.put(KEY, b"late", ttl=Seconds(60.0))
        assert await one.store.get(KEY) == b"new"
        old.end(kept=False)


async def test_who_boards_late_finds_the_entry(server: Redis) -> None:
    """Between the end of a call and its entry there is no gap in which to ask again."""
    async with fleet(server.url, Engine(), 2) as (one, two):
        lead = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(lead, Lead)
        lead.tell(b"piece")
        lead.end(kept=True)
        late = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(late, Followed)
        assert [*await late.read()] == [b"piece"]
        assert [*await late.read()] == []
        await one.store.put(KEY, b"value", ttl=Seconds(60.0))
        assert await two.store.board(KEY, FLIGHT, look=True) == b"value"
        await asyncio.sleep(0.1)
        assert not one.leads
        assert tell(server.port, "KEYS", "askonce:l*") == "*0\r\n"


async def test_a_lead_that_came_too_late_is_given_back(server: Redis) -> None:
    """Whoever boarded meanwhile does not wait for somebody who never knew of the lead."""
    async with fleet(server.url, Engine(), 2) as (one, two):
        server.server.signal(signal.SIGSTOP)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await one.store.board(KEY, FLIGHT, look=True)
        server.server.signal(signal.SIGCONT)
        berth = await two.store.board(KEY, FLIGHT, look=True)
        began = time.monotonic()
        while isinstance(berth, Followed):
            assert [*await berth.read()] == []
            berth.leave()
            berth = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(berth, Lead)
        assert time.monotonic() - began < 0.3
        berth.end(kept=False)


async def test_nothing_is_relayed_that_nobody_wants(server: Redis) -> None:
    """A flight without followers leaves neither pieces nor a lease in the server."""
    async with fleet(server.url, Engine(), 1) as (one,):
        await one.get(stream=True)
        await one.cache.settled()
        await asyncio.sleep(0.1)
        assert tell(server.port, "KEYS", "askonce:f*") == "*0\r\n"
        assert tell(server.port, "KEYS", "askonce:l*") == "*0\r\n"


async def test_an_answer_past_the_capacity_is_followed_in_a_window(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who follow read on, nobody joins any more, and the server holds a bounded part."""
    monkeypatch.setattr(flights, "CAPACITY", 10_000)
    monkeypatch.setattr(flights, "BATCH", 1000)
    async with fleet(server.url, Engine(), 2) as (one, two):
        lead = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(lead, Lead)
        follower = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(follower, Followed)
        got = b""
        for number in range(100):
            lead.tell(b"%04d" % number * 250)
            await asyncio.sleep(0)
            got += b"".join(await follower.read())
        assert await two.store.board(KEY, FLIGHT, look=True) is None
        while len(got) < 100_000:
            got += b"".join(await follower.read())
        assert got == b"".join(b"%04d" % number * 250 for number in range(100))
        (name,) = [
            n for n in tell(server.port, "KEYS", "askonce:f*:x:*").split("\r\n") if "f{" in n
        ]
        assert int(tell(server.port, "XLEN", name)[1:]) < 15


async def test_a_flight_without_followers_past_the_capacity_goes_on_alone(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its pieces are dropped, and whoever comes asks for itself."""
    monkeypatch.setattr(flights, "CAPACITY", 1000)
    async with fleet(server.url, Engine(), 2) as (one, two):
        lead = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(lead, Lead)
        lead.tell(bytes(2000))
        await asyncio.sleep(0.1)
        assert await two.store.board(KEY, FLIGHT, look=True) is None
        lead.end(kept=False)


async def test_a_reader_that_fell_out_of_the_window_is_told(
    server: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets no answer with a hole in it."""
    monkeypatch.setattr(flights, "CAPACITY", 1000)
    monkeypatch.setattr(flights, "BATCH", 100)
    async with fleet(server.url, Engine(), 2) as (one, two):
        lead = await one.store.board(KEY, FLIGHT, look=True)
        assert isinstance(lead, Lead)
        follower = await two.store.board(KEY, FLIGHT, look=True)
        assert isinstance(follower, Followed)
        lead.tell(b"first")
        await follower.read()
        for _ in range(40):
            lead.tell(bytes(100))
        await asyncio.sleep(0.3)
        with pytest.raises(StoreError, match="gone"):
            await follower.read()
        lead.end(kept=False)


async def test_values_in_envelopes_come_out_of_them(server: Redis) -> None:
    """Whoever boards late gets the value itself; what cannot be opened is as good as none."""
    async with fleet(server.url, Engine(), 1) as (one,):
        plain = SealedStore(one.store, Envelope("n", compress_over=10), sink=RecordingSink())
        other = SealedStore(one.store, Envelope("m", compress_over=10), sink=RecordingSink())
        assert isinstance(plain, SupportsFlights)
        assert isinstance(plain, SupportsWatch)
        assert isinstance(other, SupportsFlights)
        await plain.put(KEY, b"value" * 100, ttl=Seconds(60.0))
        assert await plain.board(KEY, FLIGHT, look=True) == b"value" * 100
        lead = await other.board(KEY, FLIGHT, look=True)
        assert isinstance(lead, Lead)
        lead.end(kept=False)


async def test_with_encryption_replicas_share_no_calls(server: Redis) -> None:
    """What a leader relays is not encrypted, so nothing is relayed."""
    async with fleet(server.url, Engine(), 1) as (one,):
        keys = KeyRing([bytes(32)])
        sealed = SealedStore(
            one.store, Envelope("n", compress_over=0, keys=keys), sink=RecordingSink()
        )
        assert not isinstance(sealed, SupportsFlights)
        assert isinstance(sealed, SupportsWatch)


@pytest.mark.parametrize("field", ["b", "other"])
async def test_pieces_that_cannot_be_read_are_as_good_as_none(server: Redis, field: str) -> None:
    """Whoever wrote them: they tell the follower that the leader is of no use, and no more."""
    async with fleet(server.url, Engine(), 1) as (one,):
        lead = await one.store.board(KEY, FLIGHT, look=False)
        followed = await one.store.board(KEY, FLIGHT, look=False)
        assert isinstance(lead, flights.RedisLead)
        assert isinstance(followed, flights.RedisFollowed)
        place = lead.place
        frame = build(place.bound(1), b"no message", 2.0**40, [])
        wire = one.store._calls
        await wire.ask(0, pack("XADD", place.stream, "1-0", field, frame))
        with pytest.raises(StoreError, match="cannot be read"):
            await followed.read()
        followed.leave()
        lead.end(kept=False)


async def test_a_leader_holds_no_more_than_a_server_may_take() -> None:
    """One that takes nothing costs the followers their leader, and no memory without end."""

    class Silent:
        async def run(self, *_: object) -> None:
            raise StoreError("as told")

    place = flights.Place(KEY, FLIGHT, 0, b"l", b"f", b"1")
    left: list[object] = []
    lead = flights.RedisLead(Silent(), SystemClock(), place, left.append)  # type: ignore[arg-type]
    lead._wished = True
    for _ in range(64):
        lead.tell(bytes(1 << 20))
        assert sum(map(len, lead._pieces)) <= flights.MOST_HELD + (1 << 20)
    async with asyncio.timeout(5):
        await lead.task
    assert left == [lead]

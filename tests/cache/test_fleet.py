"""Flights over several replicas, without a server between them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.cache.stage import CAT, Stage, read, settle
from tests.cache.test_fail_open import Dead

from askonce.cache import fleet as fleets
from askonce.errors import StoreError, UpstreamBroken
from askonce.policy.controls import Controls
from askonce.testing.answers import EVENTS, Chat, Reply, refusal
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Followed, Lead

pytestmark = pytest.mark.anyio

LONG = Chat(text="one two three four five six")


@pytest.fixture(autouse=True)
def no_courtesy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for others to take a lead over."""
    monkeypatch.setattr(fleets, "COURTESY", 0)


class Board:
    """`SupportsFlights` in this process; `dead` takes the leader away."""

    def __init__(self) -> None:
        self.flights: dict[bytes, Flying] = {}
        self.values: dict[bytes, bytes] = {}
        self.down = False
        self.boarded = 0

    async def board(
        self, key: bytes, flight: bytes, *, look: bool
    ) -> bytes | Lead | Followed | None:
        """See `SupportsFlights`."""
        self.boarded += 1
        if self.down:
            raise StoreError("as told")
        if look and key in self.values:
            return self.values[key]
        if flight in self.flights:
            return Follower(self.flights[flight])
        self.flights[flight] = flying = Flying(self, flight)
        return flying

    def dead(self) -> None:
        """Every leader is gone without a word."""
        for flying in list(self.flights.values()):
            flying.dead = True
            flying.end(kept=False)


class Flying:
    """A lead."""

    def __init__(self, board: Board, flight: bytes) -> None:
        self._board, self._flight = board, flight
        self.pieces: list[bytes] = []
        self.ended = self.dead = False
        self.kept: bool | None = None

    def tell(self, piece: bytes) -> None:
        """See `Lead`."""
        if not self.ended:
            self.pieces.append(piece)

    def end(self, *, kept: bool) -> None:
        """See `Lead`."""
        if not self.ended:
            self.ended, self.kept = True, kept
            self._board.flights.pop(self._flight, None)


class Follower:
    """A place behind a lead."""

    def __init__(self, flying: Flying) -> None:
        self._flying = flying
        self._read = 0

    async def read(self) -> Sequence[bytes]:
        """See `Followed`."""
        while True:
            if self._flying.dead:
                raise StoreError("the leader is gone")
            pieces = self._flying.pieces[self._read :]
            if pieces or self._flying.ended:
                self._read += len(pieces)
                return pieces
            await asyncio.sleep(0)

    def leave(self) -> None:
        """See `Followed`."""


@pytest.mark.parametrize("streams", [(True, True), (True, False), (False, True), (False, False)])
async def test_two_replicas_are_one_call(streams: tuple[bool, bool]) -> None:
    """Whatever delivery each asked for, both get the answer; the follower stores none."""
    board = Board()
    async with Stage(LONG, flights=board) as one, Stage(flights=board) as two:
        one.upstream.open.clear()
        (leading,) = one.start(stream=streams[0])
        await one.upstream.asked_times(1)
        (following,) = two.start(stream=streams[1])
        await settle()
        one.upstream.open.set()
        first, second = await leading, await following
        assert first.text == second.text
        assert (one.calls, two.calls) == (1, 0)
        assert first.how == "engine"
        assert second.how in {"collapsed", "rendered"}
        assert (await one.stored(), await two.stored()) == (1, 0)
        assert two.exact.peek(two.ask().key) is not None


async def test_followers_of_one_replica_share_its_place() -> None:
    """Each replica boards once for all who ask it the same."""
    board = Board()
    async with Stage(LONG, flights=board) as one, Stage(flights=board) as two:
        one.upstream.open.clear()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        following = [*two.start(5, stream=True), *two.start(5)]
        await settle()
        one.upstream.open.set()
        texts = {got.text for got in await asyncio.gather(leading, *following)}
        assert len(texts) == 1
        assert board.boarded == 2
        assert two.calls == 0


async def test_an_entry_that_came_meanwhile_is_a_hit() -> None:
    """Between the look and the boarding another replica may have put it."""
    board = Board()
    async with Stage(flights=board) as one, Stage(flights=board) as two:
        await one.get()
        await one.settled()
        key = one.ask().key
        value = await one.memory.get(key)
        assert value is not None
        board.values[key] = value
        assert (await two.get()).how == "exact"
        assert two.calls == 0
        ask = two.ask(controls=Controls(max_age=Seconds(5.0)))
        one.clock.advance(10)
        two.clock.advance(10)
        assert (await two.get(ask)).how == "engine"


@pytest.mark.parametrize("value", [b"rubbish", b""])
async def test_an_entry_that_cannot_be_read_is_none(value: bytes) -> None:
    """The engine is asked."""
    board = Board()
    async with Stage(flights=board) as stage:
        board.values[stage.ask().key] = value
        assert (await stage.get()).how == "engine"


async def test_without_flights_each_asks_for_itself() -> None:
    """A fault of the board is no fault of a request."""
    board = Board()
    board.down = True
    async with Stage(flights=board) as one, Stage(flights=board) as two:
        assert [(await one.get()).how, (await two.get()).how] == ["engine"] * 2


@pytest.mark.parametrize(("error", "boarded"), [(StoreError("x"), 0), (None, 3)])
async def test_a_store_that_is_away_is_asked_for_no_flight(
    error: StoreError | None, boarded: int
) -> None:
    """Neither while it fails nor behind its breaker; one that is merely late is asked still."""
    board = Board()
    store = Dead(error)
    deadline = 0.002 if error is None else 30.0
    async with Stage(
        store=store, flights=board, failures=3, deadline=deadline, semantic=False
    ) as stage:
        for number in range(6):
            assert (await stage.get(f"Question {number}?")).how == "engine"
            await stage.settled()
    assert board.boarded == boarded


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("script", [refusal(503), Reply(fault="refuse")])
async def test_a_leaders_failure_is_not_the_followers(script: Reply, stream: bool) -> None:  # noqa: FBT001
    """An engine that fails for one replica is asked again by the next."""
    board = Board()
    async with Stage(script, flights=board) as one, Stage(LONG, flights=board) as two:
        one.upstream.open.clear()
        (leading,) = one.start(stream=stream)
        await settle()
        (following,) = two.start(stream=stream)
        await settle()
        one.upstream.open.set()
        await asyncio.gather(leading, return_exceptions=True)
        assert (await following).status == 200
        assert two.calls == 1


@pytest.mark.parametrize("pieces", range(9))
async def test_an_equal_answer_goes_on_where_the_first_broke_off(pieces: int) -> None:
    """After the leader's death the reader gets each event once, and the new answer is stored."""
    board = Board()
    async with Stage(LONG, flights=board) as one, Stage(LONG, flights=board) as two:
        one.upstream.meter()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        (following,) = two.start(stream=True)
        one.upstream.let(pieces)
        await settle()
        board.dead()
        got = await following
        one.upstream.let(100)
        assert got.text == (await leading).text == LONG.text
        assert two.calls == 1
        assert await two.stored() == 1


@pytest.mark.parametrize("second", ["another answer altogether", "one two"])
async def test_another_answer_is_no_rest_of_the_first(second: str) -> None:
    """Readers who had a part of the first get an error, as when an engine breaks."""
    board = Board()
    async with (
        Stage(LONG, flights=board) as one,
        Stage(Chat(text=second), flights=board) as two,
    ):
        one.upstream.meter()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        (following,) = two.start(stream=True)
        one.upstream.let(5)
        await settle()
        board.dead()
        with pytest.raises(UpstreamBroken, match="broke off"):
            await following
        one.upstream.let(100)
        await leading


async def test_a_whole_answer_is_not_given_out_in_part() -> None:
    """Who waits for all of it gets all of the second one when the first leader dies."""
    board = Board()
    other = Chat(text="something else")
    async with Stage(LONG, flights=board) as one, Stage(other, flights=board) as two:
        one.upstream.meter()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        (following,) = two.start(stream=False)
        one.upstream.let(5)
        await settle()
        board.dead()
        assert (await following).text == "something else"
        one.upstream.let(100)
        await leading


async def test_who_meets_dead_leaders_alone_goes_alone() -> None:
    """There is an end to following."""

    class Cursed(Board):
        async def board(self, key: bytes, flight: bytes, *, look: bool) -> Followed:
            self.boarded += 1
            flying = Flying(self, flight)
            flying.dead = True
            return Follower(flying)

    board = Cursed()
    async with Stage(flights=board) as stage:
        assert (await stage.get()).how == "engine"
        assert board.boarded == fleets.FOLLOWS


@pytest.mark.parametrize("first", [b"", b"x", b"\xff\xff", b"b{}"])
async def test_a_leader_that_talks_nonsense_is_left(first: bytes) -> None:
    """What does not begin as an answer does is none."""

    class Odd(Board):
        async def board(self, key: bytes, flight: bytes, *, look: bool) -> Followed:
            flying = Flying(self, flight)
            flying.tell(first)
            flying.end(kept=False)
            return Follower(flying)

    async with Stage(flights=Odd()) as stage:
        assert (await stage.get(stream=True)).how == "engine"


async def test_a_caller_who_leaves_does_not_end_a_kept_lead() -> None:
    """The flight lands and is stored without its caller, for those who follow elsewhere."""
    board = Board()
    async with Stage(LONG, flights=board) as one, Stage(flights=board) as two:
        one.upstream.open.clear()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        (following,) = two.start(stream=True)
        await settle()
        leading.cancel()
        await asyncio.wait([leading])
        one.upstream.open.set()
        assert (await following).text == LONG.text
        assert (one.calls, two.calls) == (1, 0)


async def test_after_a_revocation_nobody_joins_an_older_call() -> None:
    """The flight's name tells what was known when it began."""
    async with Stage() as stage:
        ask = stage.ask()
        other = stage.ask(controls=Controls(tags=("t",)))
        boards = fleets.Fleet(Board(), None, Seconds(1.0))  # type: ignore[arg-type]
        names = {
            boards.journey(each, None, stamp)._name  # type: ignore[arg-type]
            for each in (ask, other)
            for stamp in (1, 2)
        }
        assert len(names) == 4
        assert boards.journey(stage.ask(CAT), None, 1)._name in names  # type: ignore[arg-type]


async def test_a_follower_of_an_unread_answer_reads_it_later() -> None:
    """A reply that is read late is whole."""
    board = Board()
    async with Stage(LONG, flights=board) as one, Stage(flights=board) as two:
        one.upstream.open.clear()
        (leading,) = one.start(stream=True)
        await one.upstream.asked_times(1)
        waiting = two.cache.answering(two.ask(stream=True))
        entering = asyncio.create_task(waiting.__aenter__())
        await settle()
        one.upstream.open.set()
        await leading
        await one.settled()
        assert (await read(await entering)).text == LONG.text
        await waiting.__aexit__()


async def test_a_lead_ends_with_a_call_that_is_given_up_at_its_very_end() -> None:
    """The answer was whole, its last reader left before the rest of it: nobody follows for good."""
    board = Board()
    unended = Reply(headers=(EVENTS,), pieces=(b"data: {}\n\n" * 29, b"x" * 50), framing="chunked")
    async with Stage(unended, flights=board, max_entry_bytes=300) as one:
        ask = one.ask(stream=True, controls=Controls(ttl=Seconds(0)))
        async with one.cache.answering(ask):
            await settle()
        await settle()
        assert board.flights == {}

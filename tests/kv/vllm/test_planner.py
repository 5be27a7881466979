"""The scheduler's half: which blocks are looked up, loaded and stored, and which never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.kv.vllm.standins import BLOCK_TOKENS, FakePool, Step, first_step, next_step, request

from askonce.kv.admission import Sighting
from askonce.kv.audit import Sample
from askonce.kv.vllm.adapters import Adapters
from askonce.kv.vllm.economy import Economy, Shape
from askonce.kv.vllm.planner import Planner, Rules
from askonce.testing import FakeClock

if TYPE_CHECKING:
    from pathlib import Path

LONG = 10 * BLOCK_TOKENS + 5


@pytest.fixture
def pool() -> FakePool:
    """One that holds nothing."""
    return FakePool()


def _planner(pool: FakePool, economy: Economy | None = None, **rules: Any) -> Planner:
    told = {"block_tokens": BLOCK_TOKENS, "ranks": 1, "min_blocks": 2, **rules}
    adapters = Adapters(lambda path: path.name.encode().ljust(32))
    return Planner(pool, adapters, Rules(**told), economy or _economy(FakeClock()))  # type: ignore[arg-type]


def _economy(clock: FakeClock, **how: Any) -> Economy:
    return Economy(Shape(BLOCK_TOKENS, 1_000_000, 4), clock, **how)


def _hold(pool: FakePool, hashes: list[bytes], ranks: int = 1) -> None:
    pool.stored |= {(name, rank): b"x" for name in hashes for rank in range(ranks)}


def test_a_hit_is_offered_from_what_the_engine_has_itself(pool: FakePool) -> None:
    """The lookup begins behind the local hit, and its first gap ends the offer."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes[:3] + asked.block_hashes[4:7] + asked.block_hashes[8:])
    planner.begin(asked)
    assert planner.match(asked, 4 * BLOCK_TOKENS) == (3 * BLOCK_TOKENS, True)
    assert [key.hash for key in pool.asked[0]] == asked.block_hashes[4:]


def test_one_token_is_left_to_compute(pool: FakePool) -> None:
    """A prompt that is all blocks is loaded but for the last one."""
    planner, asked = _planner(pool), request("a", 10, more=0)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    assert planner.match(asked, 0) == (9 * BLOCK_TOKENS, True)


def test_no_answer_yet_is_none_and_asked_once(pool: FakePool) -> None:
    """The engine may ask as often as it likes; the store is asked once."""
    planner, asked = _planner(pool), request("a", 10)
    pool.answers = False
    planner.begin(asked)
    assert [planner.match(asked, 0) for _ in range(3)] == [(None, False)] * 3
    assert len(pool.asked) == 1
    pool.answers = True
    assert planner.match(asked, 0) == (0, False)


def test_an_idle_engine_waits_a_moment_for_an_answer_once_a_step(pool: FakePool) -> None:
    """One whose last step ran a request does not."""
    planner, one, other = _planner(pool), request("a", 10), request("b", 10)
    pool.answers = False
    planner.begin(one)
    planner.begin(other)
    for asked in (one, other, one):
        planner.match(asked, 0)
    assert len(pool.waited) == 1
    planner.plan(Step())
    planner.match(one, 0)
    assert len(pool.waited) == 2
    planner.plan(first_step("c", [], 0, 5))
    planner.match(one, 0)
    assert len(pool.waited) == 2


def test_a_local_hit_that_shrank_is_looked_up_anew_but_not_for_ever(pool: FakePool) -> None:
    """Blocks that the engine lost while the request waited are asked for, a few times at most."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    said = [planner.match(asked, blocks * BLOCK_TOKENS)[0] for blocks in (4, 3, 2, 1)]
    assert said == [6 * BLOCK_TOKENS, 7 * BLOCK_TOKENS, 8 * BLOCK_TOKENS, 0]


def test_a_local_hit_that_grew_needs_no_new_lookup(pool: FakePool) -> None:
    """The answer for more blocks holds for fewer."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    planner.match(asked, 0)
    assert planner.match(asked, 5 * BLOCK_TOKENS) == (5 * BLOCK_TOKENS, True)
    assert len(pool.asked) == 1


@pytest.mark.parametrize("rules", [{"min_blocks": 11}, {"loads": False}])
def test_what_is_not_worth_it_or_not_wanted_is_not_looked_up(
    pool: FakePool, rules: dict[str, Any]
) -> None:
    """Neither a short rest nor an engine that only stores."""
    planner, asked = _planner(pool, **rules), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    assert planner.match(asked, 0) == (0, False)
    assert not pool.asked


def test_a_block_is_there_when_all_workers_shards_are(pool: FakePool) -> None:
    """With two workers a half of a block is none."""
    planner, asked = _planner(pool, ranks=2), request("a", 10)
    _hold(pool, asked.block_hashes[:5], ranks=2)
    _hold(pool, asked.block_hashes[5:], ranks=1)
    planner.begin(asked)
    assert planner.match(asked, 0) == (5 * BLOCK_TOKENS, True)


def test_a_load_goes_into_the_blocks_behind_the_local_ones(pool: FakePool) -> None:
    """Hashes and block ids of the plan belong together, and the second call changes nothing."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    planner.match(asked, 4 * BLOCK_TOKENS)
    planner.allocated(asked, list(range(100, 110)), 6 * BLOCK_TOKENS)
    planner.allocated(asked, list(range(100, 111)), 0)
    (load,) = planner.plan(Step()).loads
    assert load == ("a", asked.block_hashes[4:10], [104, 105, 106, 107, 108, 109])
    assert not planner.plan(Step()).loads


def test_an_audited_hit_is_computed_and_held_against_the_store(pool: FakePool) -> None:
    """Block by block as it is computed; what was not found is stored as ever."""
    economy = _economy(FakeClock(), audit=Sample(1.0, lambda: 0.0))
    planner, asked = _planner(pool, economy), request("a", 10)
    _hold(pool, asked.block_hashes[4:8])
    planner.begin(asked)
    assert planner.match(asked, 4 * BLOCK_TOKENS) == (0, False)
    table = list(range(100, 111))
    plan = planner.plan(first_step("a", table[:6], 4 * BLOCK_TOKENS, 2 * BLOCK_TOKENS))
    assert plan.audits == list(zip(asked.block_hashes[4:6], [104, 105], strict=True))
    assert not plan.hashes
    rest = planner.plan(next_step("a", table[6:], 6 * BLOCK_TOKENS, 4 * BLOCK_TOKENS + 5))
    assert rest.audits == list(zip(asked.block_hashes[6:8], [106, 107], strict=True))
    assert (rest.hashes, rest.blocks) == (asked.block_hashes[8:], [108, 109])
    assert economy.ledger.audited == 1


def test_a_hit_that_is_not_chosen_is_loaded(pool: FakePool) -> None:
    """Chance decides once for each hit."""
    economy = _economy(FakeClock(), audit=Sample(0.5, iter([0.9, 0.1]).__next__))
    planner, asked = _planner(pool, economy), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    assert planner.match(asked, 0) == (10 * BLOCK_TOKENS, True)
    assert planner.match(asked, 0) == (10 * BLOCK_TOKENS, True)


def test_only_what_this_engine_computed_is_stored(pool: FakePool) -> None:
    """Neither what it had nor what was loaded, and each block once, when it is complete."""
    planner, asked = _planner(pool), request("a", 10)
    planner.begin(asked)
    table = list(range(100, 108))
    plan = planner.plan(first_step("a", table, 4 * BLOCK_TOKENS, 2 * BLOCK_TOKENS + 7))
    assert (plan.hashes, plan.blocks) == (asked.block_hashes[4:6], [104, 105])
    at = 6 * BLOCK_TOKENS + 7
    plan = planner.plan(next_step("a", [108, 109, 110], at, LONG - at))
    assert (plan.hashes, plan.blocks) == (asked.block_hashes[6:10], [106, 107, 108, 109])
    assert not planner.plan(next_step("a", [], LONG, 1)).hashes


def test_a_resumed_request_has_a_new_table(pool: FakePool) -> None:
    """After preemption the old block ids are not used."""
    planner, asked = _planner(pool), request("a", 10)
    planner.begin(asked)
    planner.plan(first_step("a", list(range(100, 105)), 0, 5 * BLOCK_TOKENS))
    step = next_step("a", list(range(200, 211)), 0, LONG)
    step.scheduled_cached_reqs.resumed_req_ids = {"a"}
    assert planner.plan(step).blocks == list(range(200, 210))


def test_a_failed_load_is_not_tried_again(pool: FakePool) -> None:
    """Its blocks are marked, and the request computes from now on."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    planner.match(asked, 0)
    planner.allocated(asked, list(range(100, 110)), 10 * BLOCK_TOKENS)
    planner.loaded("a", {103}, failed=False)
    assert [key.hash for key in pool.failed] == [asked.block_hashes[3]]
    assert planner.match(asked, 0) == (0, False)


def test_an_epoch_that_passes_ends_the_storing_of_what_runs(pool: FakePool) -> None:
    """A block that stands on blocks of an earlier epoch is in none."""
    planner, running, later = _planner(pool), request("a", 10), request("b", 10, prompt="q")
    planner.begin(running)
    planner.plan(first_step("a", list(range(100, 111)), 0, 3 * BLOCK_TOKENS))
    pool.epochs.now = 2
    at = 3 * BLOCK_TOKENS
    assert not planner.plan(next_step("a", [], at, LONG - at)).hashes
    planner.begin(later)
    assert planner.plan(first_step("b", list(range(200, 211)), 0, LONG)).hashes


def test_what_the_engine_held_before_an_epoch_makes_nothing_storable(pool: FakePool) -> None:
    """Until its own cache was emptied, a request with a local hit stores nothing."""
    planner, asked, fresh = _planner(pool), request("a", 10), request("b", 10)
    emptied: list[bool] = []

    def forget() -> bool:
        emptied.append(True)
        return True

    planner.may_forget(forget)
    planner.begin(request("first", 10))
    pool.epochs.now = 2
    planner.begin(asked)
    step = first_step("a", list(range(100, 111)), 4 * BLOCK_TOKENS, LONG - 4 * BLOCK_TOKENS)
    assert not planner.plan(step).hashes
    assert not emptied
    planner.end("first")
    planner.end("a")
    planner.begin(fresh)
    assert emptied == [True]
    step = first_step("b", list(range(100, 111)), 4 * BLOCK_TOKENS, LONG - 4 * BLOCK_TOKENS)
    assert planner.plan(step).hashes


def test_a_load_of_an_earlier_epoch_makes_nothing_storable(pool: FakePool) -> None:
    """Blocks that were on their way when the epoch passed are no ground to build on."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes[:6])
    planner.begin(asked)
    planner.match(asked, 0)
    planner.allocated(asked, list(range(100, 106)), 6 * BLOCK_TOKENS)
    planner.plan(Step())
    assert planner.reset()
    planner.loaded("a", set(), failed=False)
    step = first_step("a", list(range(100, 111)), 6 * BLOCK_TOKENS, LONG - 6 * BLOCK_TOKENS)
    assert not planner.plan(step).hashes


def test_without_an_epoch_nothing_is_stored(pool: FakePool) -> None:
    """An engine that has not read the epoch stores nothing."""
    pool.epochs.now = None
    planner, asked = _planner(pool), request("a", 10)
    planner.begin(asked)
    assert not planner.plan(first_step("a", list(range(100, 111)), 0, LONG)).hashes


def test_an_ended_request_leaves_nothing(pool: FakePool) -> None:
    """But a load that was planned goes to the workers, who tell the engine of its end."""
    planner, asked = _planner(pool), request("a", 10)
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    planner.match(asked, 0)
    planner.allocated(asked, list(range(100, 110)), 10 * BLOCK_TOKENS)
    planner.end("a")
    planner.loaded("a", {100}, failed=True)
    assert planner.following == 0
    assert pool.aborted == ["a"]
    assert [load.request for load in planner.plan(Step()).loads] == ["a"]


def test_an_adapter_is_part_of_a_blocks_name(pool: FakePool, tmp_path: Path) -> None:
    """By its content, and while that is not known nothing is shared."""
    adapters = Adapters()
    planner = Planner(pool, adapters, Rules(BLOCK_TOKENS, 1, 1), _economy(FakeClock()))  # type: ignore[arg-type]
    asked = request("a", 10)
    asked.lora_request = SimpleNamespace(lora_int_id=1, lora_path=str(tmp_path))
    _hold(pool, asked.block_hashes)
    planner.begin(asked)
    assert planner.match(asked, 0) == (0, False)
    assert not pool.asked
    (tmp_path / "adapter.bin").write_bytes(b"weights")
    asked.lora_request.load_inplace = True
    adapters.meet(asked.lora_request)
    adapters.close()
    assert planner.match(asked, 0) == (0, False)
    assert not set(asked.block_hashes) & {key.hash for key in pool.asked[0]}


def _prefill(planner: Planner, clock: FakeClock, name: str, seconds: float) -> None:
    """A prompt that the engine computes alone, in so many seconds."""
    planner.begin(request(name, 10, prompt=name))
    planner.plan(first_step(name, list(range(11)), 0, LONG))
    clock.advance(seconds)
    planner.stepped()
    planner.end(name)


@pytest.mark.parametrize(("seconds", "offered"), [(1.0, 10), (0.001, 0)])
def test_what_is_cheaper_to_compute_is_not_loaded(
    pool: FakePool, seconds: float, offered: int
) -> None:
    """By the engine's own prefill times, and decided once, however often it asks."""
    clock = FakeClock()
    economy = _economy(clock)
    planner, asked = _planner(pool, economy), request("a", 10)
    _hold(pool, asked.block_hashes)
    _prefill(planner, clock, "cold", seconds)
    planner.begin(asked)
    said = {planner.match(asked, 0) for _ in range(3)}
    assert said == {(offered * BLOCK_TOKENS, bool(offered))}
    assert economy.ledger.refused == int(not offered)


def test_a_probe_learns_that_the_store_became_fast(pool: FakePool) -> None:
    """After so many refusals a block is fetched beside the request, and its time counts."""
    clock = FakeClock()
    economy = _economy(clock)
    planner = _planner(pool, economy)
    pool.seconds = 0.0
    _hold(pool, request("x", 10).block_hashes)
    _prefill(planner, clock, "cold", 0.011)
    offers = []
    for number in range(2000):
        asked = request(f"r{number}", 10)
        planner.begin(asked)
        offers.append(planner.match(asked, 0)[0])
        planner.plan(Step())
        planner.end(asked.request_id)
    assert offers[0] == 0
    assert offers[-1] == 10 * BLOCK_TOKENS


def test_a_load_is_settled_once(pool: FakePool) -> None:
    """Used, failed or given up, it is in the ledger with its bytes, and prompts by their source."""
    clock = FakeClock()
    economy = _economy(clock)
    planner = _planner(pool, economy)
    _hold(pool, request("x", 10).block_hashes)
    for name, bad in (("used", set()), ("failed", {3}), ("gone", None)):
        asked = request(name, 10)
        planner.begin(asked)
        planner.match(asked, 0)
        planner.allocated(asked, list(range(10)), 10 * BLOCK_TOKENS)
        planner.plan(Step())
        clock.advance(0.02)
        if bad is not None:
            planner.loaded(name, bad, failed=False)
        computed = 0 if bad else 10 * BLOCK_TOKENS
        planner.plan(first_step(name, list(range(11)), computed, LONG - computed))
        planner.end(name)
    told = economy.ledger
    assert (told.loads, told.lost, told.bytes_read, told.bytes_wasted) == (3, 2, 10**7, 2 * 10**7)
    assert told.lost_seconds == pytest.approx(0.04)
    assert (told.store_tokens, told.computed_tokens) == (20 * BLOCK_TOKENS, LONG + 10)


def test_only_what_is_admitted_is_stored(pool: FakePool) -> None:
    """Leading blocks that are not worth it end the storing, for this request and all its steps."""

    class Half:
        def see(self, hashes: list[int], now: float) -> Sighting:
            return Sighting((0,) * len(hashes), 0.0)

        def keep(self, sighting: Sighting, known: int) -> list[float]:
            return [60.0] * (len(sighting.classes) // 2 + known)

    economy = _economy(FakeClock(), admission=Half())
    planner, asked = _planner(pool, economy), request("a", 10)
    planner.begin(asked)
    plan = planner.plan(first_step("a", list(range(100, 111)), 0, LONG))
    assert plan.hashes == asked.block_hashes[:5]
    assert not planner.plan(next_step("a", [], LONG, 1)).hashes
    assert economy.unadmitted == 5
    _hold(pool, asked.block_hashes[:3])
    again = request("b", 10)
    planner.begin(again)
    planner.match(again, 0)
    plan = planner.plan(first_step("b", list(range(100, 111)), 0, LONG))
    assert plan.hashes == again.block_hashes[:8]
    assert plan.lives == [60.0] * 8
    assert [key.hash for key, _ in pool.renewed] == again.block_hashes[:3]


def test_blocks_of_an_answer_live_as_long_as_the_prompts_end(pool: FakePool) -> None:
    """And what the engine had itself is renewed, worker by worker, where it is worth storing."""

    class Falling:
        def see(self, hashes: list[int], now: float) -> Sighting:
            return Sighting((0,) * len(hashes), 0.0)

        def keep(self, sighting: Sighting, known: int) -> list[float]:
            return [100.0 - place for place in range(len(sighting.classes))]

    economy = _economy(FakeClock(), admission=Falling())
    planner, asked = _planner(pool, economy, ranks=2), request("a", 10)
    planner.begin(asked)
    table = list(range(100, 113))
    plan = planner.plan(first_step("a", table, 4 * BLOCK_TOKENS, LONG - 4 * BLOCK_TOKENS))
    assert plan.lives == [96.0, 95.0, 94.0, 93.0, 92.0, 91.0]
    assert [(key.group, life) for key, life in pool.renewed[:3]] == [
        (0, 100.0),
        (1, 100.0),
        (0, 99.0),
    ]
    assert len(pool.renewed) == 8
    asked.block_hashes.append(b"answer".ljust(32))
    plan = planner.plan(next_step("a", [], LONG, BLOCK_TOKENS))
    assert plan.lives == [91.0]


def test_where_no_life_can_be_renewed_the_workers_are_told_none(pool: FakePool) -> None:
    """They never renew, so they cannot know; what is worth storing stays the same."""

    class Half:
        def see(self, hashes: list[int], now: float) -> Sighting:
            return Sighting((0,) * len(hashes), 0.0)

        def keep(self, sighting: Sighting, known: int) -> list[float]:
            return [60.0] * (len(sighting.classes) // 2)

    planner, asked = _planner(pool, _economy(FakeClock(), admission=Half())), request("a", 10)
    pool.renews = False
    planner.begin(asked)
    plan = planner.plan(first_step("a", list(range(100, 111)), 0, LONG))
    assert plan.hashes == asked.block_hashes[:5]
    assert plan.lives == [None] * 5

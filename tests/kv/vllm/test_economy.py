"""What the gate learns from an engine, and what the ledger says of its loads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from askonce.kv.audit import Sample
from askonce.kv.vllm.economy import ECONOMY_METRICS, Economy, Shape
from askonce.kv.vllm.settings import settings_from
from askonce.testing import FakeClock

if TYPE_CHECKING:
    from askonce.kv.gate import Decision

BLOCK, SIZE = 32, 1_000_000
PAGE = Path(__file__).parents[3] / "docs" / "kv" / "vllm.md"


@pytest.fixture
def clock() -> FakeClock:
    """It stands still."""
    return FakeClock()


@pytest.fixture
def economy(clock: FakeClock) -> Economy:
    """Of an engine that has shown nothing yet."""
    return Economy(Shape(BLOCK, SIZE, 4), clock)


def _step(economy: Economy, clock: FakeClock, prefills: list[tuple[int, int]], took: float) -> None:
    economy.step(prefills, max(1, len(prefills)))
    clock.advance(took)
    economy.stepped()


def _load(
    economy: Economy, clock: FakeClock, took: float, *, steps: float = 0.0
) -> tuple[Decision, bool]:
    decision = economy.choose(1000, 0, 20)
    economy.begin("a", decision, 20)
    if steps:
        _step(economy, clock, [], steps)
    clock.advance(took - steps)
    return decision, economy.end("a", usable=True)


def test_before_a_prefill_was_seen_everything_is_loaded(economy: Economy, clock: FakeClock) -> None:
    """Without a comparison a load neither wins nor loses, and decoding shows nothing."""
    _step(economy, clock, [], 0.03)
    decision, _ = _load(economy, clock, 5.0)
    assert decision.blocks == 20
    assert (economy.ledger.loads, economy.ledger.lost) == (1, 0)
    assert economy.ledger.net_seconds == 0.0


def test_a_load_that_is_slower_than_the_prefill_is_lost(economy: Economy, clock: FakeClock) -> None:
    """By as much as it was slower; the next one is refused, since the store has shown itself."""
    _step(economy, clock, [(1000, 0)], 0.1)
    decision, _ = _load(economy, clock, 0.5)
    assert decision.blocks == 20
    assert economy.ledger.lost == 1
    assert economy.ledger.lost_seconds == pytest.approx(0.5 + 0.036 - 0.1, abs=0.001)
    for _ in range(8):
        _load(economy, clock, 0.5)
    assert economy.choose(1000, 0, 20).why == "recompute"


def test_steps_for_others_are_no_fault_of_the_store(economy: Economy, clock: FakeClock) -> None:
    """A load whose end the engine could not see is not measured, nor lost; a probe is, at times."""
    _step(economy, clock, [(1000, 0)], 0.1)
    told = [_load(economy, clock, 2.0, steps=1.99) for _ in range(8)]
    assert [probe for _, probe in told] == [False] * 7 + [True]
    assert economy.ledger.lost == 0
    assert economy.choose(1000, 0, 20).blocks == 20


def test_a_step_of_several_prefills_shows_none(economy: Economy, clock: FakeClock) -> None:
    """Nor one of less than a block, nor any where steps overlap."""
    _step(economy, clock, [(500, 0), (500, 0)], 0.1)
    _step(economy, clock, [(5, 0)], 0.1)
    assert economy.choose(1000, 0, 20).compute == 0.0
    overlapping = Economy(Shape(BLOCK, SIZE, 4), clock, timed=False)
    _step(overlapping, clock, [(1000, 0)], 0.1)
    assert overlapping.choose(1000, 0, 20).compute == 0.0


def test_a_busy_engine_is_slower_until_its_requests_leave(
    economy: Economy, clock: FakeClock
) -> None:
    """What the gate predicts for one prefill depends on how many others run."""
    for running in [1, 4] * 40:
        economy.step([(1000, 0)], running)
        clock.advance(0.1 * running)
        economy.stepped()
    busy = economy.choose(1000, 0, 20).compute
    for number in range(4):
        economy.leave(f"r{number}")
    assert economy.choose(1000, 0, 20).compute < 0.6 * busy


def test_an_open_gate_still_tells_what_loads_lost(clock: FakeClock) -> None:
    """With the gate off everything is loaded, and counted."""
    economy = Economy(Shape(BLOCK, SIZE, 4), clock, gated=False)
    _step(economy, clock, [(1000, 0)], 0.001)
    decision, _ = _load(economy, clock, 0.5)
    assert decision.blocks == 20
    assert (economy.ledger.lost, economy.ledger.refused) == (1, 0)


def test_learned_admission_stores_all_that_comes_early(clock: FakeClock) -> None:
    """And what nobody asks for again is not stored later on; the store's size is needed."""
    settings = settings_from({"url": "x", "admission": "learned", "store_bytes": 10 * SIZE})
    economy = Economy(Shape(BLOCK, SIZE, 4), clock, admission=settings.learned(SIZE))
    said = []
    for number in range(40):
        clock.advance(1.0)
        hashes = [b"%32d" % (7919 * (100 * number + each)) for each in range(10)]
        said.append(economy.keep(economy.see(hashes), 0))
    assert said[0] == [84_900.0] * 10
    assert said[-1] == []
    assert economy.unadmitted > 0


@pytest.mark.parametrize("seconds", [0.001, 0.5])
def test_an_audited_hit_is_computed_whether_it_pays_or_not(
    clock: FakeClock, seconds: float
) -> None:
    """And what it would have won is told apart from what loads lose."""
    economy = Economy(Shape(BLOCK, SIZE, 4), clock, audit=Sample(1.0, lambda: 0.5))
    assert economy.choose(1000, 0, 20).blocks == 0
    _step(economy, clock, [(1000, 0)], seconds)
    decision = economy.choose(1000, 0, 20)
    assert (decision.blocks, decision.size, decision.why) == (0, 0, "audited")
    told = economy.ledger
    assert (told.audited, told.refused) == (2, int(seconds < 0.01))
    assert (told.forgone_seconds > 0) == (seconds > 0.01)
    assert told.lost_seconds == 0


def test_every_figure_has_its_name_and_labels(economy: Economy) -> None:
    """Each metric that is defined is told."""
    told = list(economy.samples())
    assert {name for name, _, _ in told} == set(ECONOMY_METRICS)
    for name, labels, _ in told:
        assert len(labels) == len([each for each in ECONOMY_METRICS[name][0].split(", ") if each])


def test_every_figure_is_explained() -> None:
    """In the page on vLLM, with its meaning."""
    text = PAGE.read_text()
    for name, (_, told) in ECONOMY_METRICS.items():
        assert f"| `{name}` |" in text
        assert told in text

"""Whatever becomes of the store or of what it holds, an engine answers as if there were none."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.faults.proxy import Line, line
from tests.kv.vllm.replicas import ON_ENGINES, Replica, blocks, client, replica, transfer
from tests.servers.redis import Redis, redis

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Prompts = Callable[[int, int], list[int]]

pytestmark = ON_ENGINES
TOKENS = 8
BLOCK = 65_536
LOAD_DEADLINE = 0.5


class Bench(NamedTuple):
    """An engine, its store, and the line between them."""

    engine: Replica
    store: Redis
    line: Line


@pytest.fixture(scope="module")
def bench(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One engine for all tests here, since it takes long to start."""
    folder = tmp_path_factory.mktemp("f")
    with redis("redis7", folder) as store, line(store.port) as wire:
        slack: dict[str, Any] = {"lookup_deadline": 0.5, "store_deadline": 2.0}
        connector = transfer(wire.url, load_deadline=LOAD_DEADLINE, **slack)
        with replica(model, folder, connector) as engine:
            engine.tell("generate", prompts=[list(range(3, 600))])
            yield Bench(engine, store, wire)


@pytest.fixture
def calm(bench: Bench) -> Iterator[Bench]:
    """The store is well before and after, and trusted again."""
    bench.line.ail()
    end = time.monotonic() + 10
    while not _serves(bench) and time.monotonic() < end:
        time.sleep(0.2)
    yield bench
    bench.line.ail()


def _serves(bench: Bench) -> bool:
    figures = bench.engine.tell("figures")
    return all(
        figures[side]["askonce_kv_breaker_open"] == 0
        and figures[side]["askonce_kv_epoch_age_seconds"] < 1
        for side in ("scheduler", "worker")
    )


def _filled(bench: Bench, prompt: list[int]) -> dict[str, Any]:
    """Compute it, have it stored, and forget it in the engine."""
    cold = bench.engine.tell("generate", prompts=[prompt], tokens=TOKENS)
    assert cold["cached"] == [0]
    bench.engine.tell("settle")
    assert bench.engine.tell("reset")["done"]
    return cold


def _count(bench: Bench, name: str) -> float:
    return float(bench.engine.tell("figures")["worker"].get(name, 0))


def _same(bench: Bench, prompt: list[int], cold: dict[str, Any]) -> float:
    again = bench.engine.tell("generate", prompts=[prompt], tokens=TOKENS)
    assert again["tokens"] == cold["tokens"]
    assert again["finish"] == ["length"]
    return float(again["seconds"])


def test_a_prefix_comes_back_from_the_store(calm: Bench, prompts: Prompts) -> None:
    """What the engine forgot is loaded, verified and used."""
    prompt = prompts(1000, 10)
    cold = _filled(calm, prompt)
    before = _count(calm, "askonce_kv_loaded_blocks_total")
    _same(calm, prompt, cold)
    assert _count(calm, "askonce_kv_loaded_blocks_total") - before == 31


@pytest.mark.parametrize("trouble", ["most", "spell"])
def test_a_line_that_fails_in_mid_load(calm: Bench, prompts: Prompts, trouble: str) -> None:
    """Blocks that stop coming half-way are computed after all, within the load's deadline."""
    prompt = prompts(1000, 20 + len(trouble))
    cold = _filled(calm, prompt)
    calm.line.ail(**{trouble: 8 * BLOCK})
    before = _count(calm, "askonce_kv_lost_blocks_total")
    seconds = _same(calm, prompt, cold)
    assert _count(calm, "askonce_kv_lost_blocks_total") > before
    assert seconds < LOAD_DEADLINE + 5


def test_a_slow_line_costs_its_deadline_at_most(calm: Bench, prompts: Prompts) -> None:
    """A store a hundred times too slow is given up, and the request computed."""
    prompt = prompts(1000, 30)
    cold = _filled(calm, prompt)
    calm.line.ail(rate=1_000_000)
    seconds = _same(calm, prompt, cold)
    assert seconds < LOAD_DEADLINE + 5


def test_a_frozen_store(calm: Bench, prompts: Prompts) -> None:
    """A store that hangs costs a lookup's deadline, and then nothing."""
    prompt = prompts(1000, 40)
    cold = _filled(calm, prompt)
    calm.store.server.signal(signal.SIGSTOP)
    try:
        _same(calm, prompt, cold)
    finally:
        calm.store.server.signal(signal.SIGCONT)


def test_no_store_at_all(calm: Bench, prompts: Prompts) -> None:
    """Without a store the engine is as it would be without us."""
    prompt = prompts(1000, 50)
    cold = _filled(calm, prompt)
    calm.line.ail(refuses=True)
    _same(calm, prompt, cold)


def test_flipped_bits_are_found(calm: Bench, prompts: Prompts) -> None:
    """A block of which one byte changed is never used, and is counted."""
    prompt = prompts(500, 60)
    with client(calm.store) as intruder:
        known = set(blocks(intruder))
        cold = _filled(calm, prompt)
        for key in set(blocks(intruder)) - known:
            intruder.setrange(key, 1000, b"\xff\xfe")
    before = _count(calm, "askonce_kv_flaws_total|checksum")
    _same(calm, prompt, cold)
    assert _count(calm, "askonce_kv_flaws_total|checksum") > before


def test_swapped_blocks_are_found(calm: Bench, prompts: Prompts) -> None:
    """A sound block under another's name is never used, and is counted."""
    prompt = prompts(500, 70)
    with client(calm.store) as intruder:
        known = set(blocks(intruder))
        cold = _filled(calm, prompt)
        fresh = sorted(set(blocks(intruder)) - known)
        values = [intruder.get(key) for key in fresh]
        for key, value in zip(fresh, values[1:] + values[:1], strict=True):
            intruder.set(key, value)
    before = _count(calm, "askonce_kv_flaws_total|key")
    _same(calm, prompt, cold)
    assert _count(calm, "askonce_kv_flaws_total|key") > before


def test_replayed_blocks_are_found(calm: Bench, prompts: Prompts) -> None:
    """What was taken back does not return when someone puts it under its new name."""
    prompt = prompts(500, 80)
    with client(calm.store) as intruder:
        known = set(blocks(intruder))
        cold = _filled(calm, prompt)
        old = {key: intruder.get(key) for key in set(blocks(intruder)) - known}
        assert calm.engine.tell("reset", connector=True)["done"]
        known = set(blocks(intruder))
        other = prompts(64, 81)
        _wait_for_epoch(calm)
        _filled(calm, other)
        (epoch,) = {key.split(b":")[2] for key in set(blocks(intruder)) - known}
        for key, value in old.items():
            space, _, name = key.split(b":", 1)[1].split(b":")
            intruder.set(b":".join((b"ak1", space, epoch, name)), value)
    before = _count(calm, "askonce_kv_flaws_total|epoch")
    _same(calm, prompt, cold)
    assert _count(calm, "askonce_kv_flaws_total|epoch") > before


def _wait_for_epoch(bench: Bench) -> None:
    """A replica learns of a new epoch within a second."""
    time.sleep(1.1)
    assert _serves(bench)


def test_what_was_taken_back_is_computed(calm: Bench, prompts: Prompts) -> None:
    """After the caches are reset nothing comes from the store, and then it fills anew."""
    prompt = prompts(500, 90)
    cold = _filled(calm, prompt)
    assert calm.engine.tell("reset", connector=True)["done"]
    _wait_for_epoch(calm)
    again = calm.engine.tell("generate", prompts=[prompt], tokens=TOKENS)
    assert again["cached"] == [0]
    assert again["tokens"] == cold["tokens"]
    calm.engine.tell("settle")
    calm.engine.tell("reset")
    third = calm.engine.tell("generate", prompts=[prompt], tokens=TOKENS)
    assert third["cached"] == [480]
    assert third["tokens"] == cold["tokens"]


def test_many_requests_at_once(calm: Bench, prompts: Prompts) -> None:
    """Fifty requests over ten prefixes get the answers of a cold run, and nothing stays held."""
    heads = [prompts(320, 100 + index) for index in range(10)]
    asked = [head + prompts(20, 200 + index) for index in range(5) for head in heads]
    cold = calm.engine.tell("generate", prompts=asked, tokens=TOKENS, patience=120)
    calm.engine.tell("settle")
    calm.engine.tell("reset")
    warm = calm.engine.tell("generate", prompts=asked, tokens=TOKENS, patience=120)
    assert warm["tokens"] == cold["tokens"]
    assert sum(warm["cached"]) >= 50 * 320 - 320
    _nothing_held(calm.engine.tell("settle"))


def test_a_storm_of_aborts(calm: Bench, prompts: Prompts) -> None:
    """Requests that are aborted at any moment leave nothing held, and the engine right."""
    prompt = prompts(1000, 300)
    cold = _filled(calm, prompt)
    free = calm.engine.tell("figures")["free"]
    storm = [prompt[:length] + prompts(30, length) for length in range(100, 1000, 20)]
    for steps in (0, 1, 2, 3, 5, 8):
        figures = calm.engine.tell("storm", prompts=storm, steps=steps)
        calm.engine.tell("reset")
        calm.line.ail(rate=20_000_000 if steps % 2 else None)
    calm.line.ail()
    figures = calm.engine.tell("settle")
    _nothing_held(figures)
    assert figures["free"] == free
    _same(calm, prompt, cold)


def _nothing_held(figures: dict[str, Any]) -> None:
    assert figures["held"] == figures["following"] == figures["requests"] == 0
    for side in ("scheduler", "worker"):
        assert figures[side]["askonce_kv_pinned_views"] == 0
        assert figures[side]["askonce_kv_open_lookups"] == 0

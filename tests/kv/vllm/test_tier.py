"""The tier under vLLM's own offloading manager, whose classes are the real ones; no GPU."""

from __future__ import annotations

import inspect
import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip(
    "vllm", reason="there is no vLLM: run `make test-kv-vllm`", exc_type=ImportError
)

from tests.faults.proxy import line
from tests.servers.redis import Redis, redis
from vllm.utils.hashing import sha256
from vllm.v1.core import kv_cache_utils
from vllm.v1.kv_offload.base import LookupResult, ReqContext, ScheduleEndContext, make_offload_key
from vllm.v1.kv_offload.config import (
    OffloadingCacheConfig,
    OffloadingConfig,
    OffloadingGroupConfig,
    OffloadingModelConfig,
    OffloadingParallelConfig,
)
from vllm.v1.kv_offload.tiering.base import SecondaryTierManager
from vllm.v1.kv_offload.tiering.spec import TieringOffloadingSpec

from askonce.errors import ConfigError
from askonce.kv.vllm.tier import AskOnceTier

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [
    pytest.mark.slow,
    pytest.mark.servers,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore"),
]
ROW = 4096
PATIENCE = 10.0


class Offloading:
    """One engine's offloading: vLLM's manager, a host memory of a few rows, and the tier."""

    def __init__(self, manager: Any) -> None:
        self.manager = manager
        self.tier: AskOnceTier = manager.secondary_tiers[0]
        self.view = np.asarray(manager.primary_tier.get_kv_memoryview())

    def begin(self, name: str) -> Any:
        """A request, once the tier knows the epoch."""
        request = ReqContext(req_id=name)
        self.manager.on_new_request(request)
        end = time.monotonic() + PATIENCE
        assert self.tier._opened is not None
        while self.tier._opened[0].epochs.current() is None and time.monotonic() < end:
            time.sleep(0.01)
        self.manager.on_new_request(request)
        return request

    def step(self) -> None:
        """The end of a scheduler's step."""
        self.manager.on_schedule_end(ScheduleEndContext((), ()))

    def store(self, request: Any, blocks: dict[bytes, int]) -> None:
        """Offload blocks, each filled with a byte, and wait until the tier is done."""
        told = self.manager.prepare_store(list(blocks), request)
        for key, row in zip(told.keys_to_store, told.store_spec.chunk_ids, strict=True):
            self.view[row] = blocks[key]
        self.manager.complete_store(told.keys_to_store, request)
        self.settle()

    def reset(self) -> None:
        """vLLM empties its caches, and its workers have nothing under way."""
        self.manager.reset_cache()
        if hasattr(self.manager, "on_reset_flushed"):
            self.manager.on_reset_flushed()

    def settle(self) -> None:
        """Step until no job is under way."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            self.step()
            if not self.tier._jobs and not self.manager._jobs:
                return
            time.sleep(0.005)
        pytest.fail("jobs did not end")

    def find(self, request: Any, key: bytes) -> tuple[LookupResult, float]:
        """Look up until there is an answer, and how long it took."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE:
            said = self.manager.lookup(key, request)
            if said in {LookupResult.HIT, LookupResult.MISS}:
                return said, time.monotonic() - began
            self.step()
            time.sleep(0.001)
        pytest.fail("no answer")

    def read(self, request: Any, key: bytes) -> Any:
        """A block that was found."""
        (row,) = self.manager.prepare_load([key], request).chunk_ids
        return self.view[row].copy()


@contextmanager
def offloading(
    url: str, model: Path, *, algorithm: Any = sha256, **told: Any
) -> Iterator[Offloading]:
    """As an engine's scheduler has it."""
    kv_cache_utils.init_none_hash(algorithm)
    tier = {"type": "AskOnceTier", "module_path": "askonce.kv.vllm", "url": url}
    config = OffloadingConfig(
        groups=(OffloadingGroupConfig(tokens_per_block=32, layer_names=("a",), group_id=0),),
        worker_kv_bytes_per_block=ROW,
        enable_kv_cache_events=False,
        extra_config={
            "cpu_bytes_to_use": 64 * ROW,
            "secondary_tiers": [
                {**tier, "weights": str(model), "lookup_deadline": 1.0, "audit": 0, **told}
            ],
        },
        engine_id=uuid.uuid4().hex,
        model=OffloadingModelConfig(name="some/model", dtype="float32"),
        cache=OffloadingCacheConfig(tokens_per_hash=32, blocks_per_chunk=1),
        parallel=OffloadingParallelConfig(
            rank=0,
            world_size=1,
            tp_size=1,
            pp_size=1,
            pcp_size=1,
            dcp_size=1,
            data_parallel_index=0,
            data_parallel_size=1,
            data_parallel_rank_local=None,
            is_parallelism_agnostic=True,
        ),
    )
    made = Offloading(TieringOffloadingSpec(config).get_manager())
    try:
        yield made
    finally:
        del made.view
        made.manager.shutdown()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    """A Redis for all tests here."""
    with redis("redis7", tmp_path_factory.mktemp("t")) as server:
        yield server


def _keys(text: str, count: int = 3) -> list[bytes]:
    return [make_offload_key(sha256((text, index)), 0) for index in range(count)]


def test_it_keeps_the_contract() -> None:
    """Nothing abstract is left, and each method takes what vLLM's own takes."""
    assert not AskOnceTier.__abstractmethods__
    for name, own in vars(AskOnceTier).items():
        theirs = getattr(SecondaryTierManager, name, None)
        if name.startswith("_") or theirs is None or not callable(theirs):
            continue
        took = list(inspect.signature(own if inspect.isfunction(own) else own.__func__).parameters)
        asked = list(inspect.signature(theirs).parameters)
        assert [each for each in took if each not in {"self", "cls"}] == [
            each for each in asked if each not in {"self", "cls"}
        ], name


def test_a_block_of_one_engine_is_promoted_by_another(store: Redis, model: Path) -> None:
    """Its bytes arrive whole, and the engine that has none of them finds them."""
    keys = _keys("promoted")
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict(zip(keys, (7, 8, 9), strict=True)))
    with offloading(store.unix_url, model) as second:
        request = second.begin("b")
        for key, byte in zip(keys, (7, 8, 9), strict=True):
            assert second.find(request, key)[0] is LookupResult.HIT
            assert (second.read(request, key) == byte).all()
        assert second.find(request, _keys("unknown")[0])[0] is LookupResult.MISS


@pytest.mark.parametrize("other", ["tenant", "weights", "algorithm"])
def test_another_identity_finds_nothing(
    store: Redis, model: Path, tmp_path: Path, other: str
) -> None:
    """Another tenant, other weights and another hash have other blocks."""
    from tests.kv.vllm.tiny import make_model
    from vllm.utils.hashing import sha256_cbor

    keys = _keys(f"identity {other}")
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict.fromkeys(keys, 1))
    more: dict[str, Any] = {
        "tenant": {"tenant": "another"},
        "weights": {"weights": str(make_model(tmp_path / "m", seed=9))},
        "algorithm": {"algorithm": sha256_cbor},
    }[other]
    with offloading(store.unix_url, model, **more) as second:
        assert second.find(second.begin("b"), keys[0])[0] is LookupResult.MISS


def test_a_spoilt_block_is_a_miss_and_stays_one(store: Redis, model: Path) -> None:
    """A promotion that fails does not start anew for ever."""
    import redis as driver

    keys = _keys("spoilt")
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict.fromkeys(keys, 5))
    with driver.Redis(port=store.port) as intruder:
        (name,) = [
            each
            for each in intruder.keys("ak1:*")
            if keys[1][:-4].hex().encode() in each and each[-1:] != b"+"
        ]
        intruder.setrange(name, 500, b"\x00\x01")
    with offloading(store.unix_url, model) as second:
        request = second.begin("b")
        assert second.find(request, keys[0])[0] is LookupResult.HIT
        assert second.find(request, keys[1])[0] is LookupResult.MISS
        assert second.tier._opened is not None
        assert second.tier._opened[0].figures().flaws["checksum"] == 1


@pytest.mark.parametrize(("token", "said"), [(1e6, LookupResult.HIT), (1e-3, LookupResult.MISS)])
def test_what_is_cheaper_to_compute_is_a_miss(
    store: Redis, model: Path, token: float, said: LookupResult
) -> None:
    """Where the operator tells what a prefill takes; loads and refusals are in the ledger."""
    keys = _keys(f"gate {token}")
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict.fromkeys(keys, 5))
    with offloading(store.unix_url, model, prefill=[0, token, 0]) as second:
        assert second.find(second.begin("b"), keys[0])[0] is said
        ledger = second.tier._economy.ledger
        refused = said is LookupResult.MISS
        assert (ledger.loads, ledger.refused) == (int(not refused), int(refused))


@pytest.mark.parametrize("computed", ["as stored", "otherwise"])
def test_an_audited_hit_is_a_miss_and_held_against_the_store(
    store: Redis, model: Path, computed: str
) -> None:
    """What vLLM offloads of that request is compared with what another engine has stored."""
    keys = _keys(f"audited {computed}")
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict.fromkeys(keys, 5))
    with offloading(store.unix_url, model, audit=1.0) as second:
        request = second.begin("b")
        assert second.find(request, keys[0])[0] is LookupResult.MISS
        second.store(request, dict.fromkeys(keys, 5 if computed == "as stored" else 6))
        assert second.tier._opened is not None
        record = second.tier._opened[0].figures().audit
        agreed = len(keys) if computed == "as stored" else 0
        assert (record.agreed, record.disagreed) == (agreed, len(keys) - agreed)
        assert second.tier._economy.ledger.audited == 1


@pytest.mark.parametrize("trouble", [{"most": 0}, {"refuses": True}])
def test_a_sick_store_is_a_miss_in_time(
    store: Redis, model: Path, trouble: dict[str, object]
) -> None:
    """RETRY ends with the lookup's deadline when the store hangs or is gone."""
    with line(store.port) as wire, offloading(wire.url, model, lookup_deadline=0.05) as engine:
        request = engine.begin("a")
        wire.ail(**trouble)
        said, seconds = engine.find(request, _keys("sick")[0])
        assert said is LookupResult.MISS
        assert seconds < 0.05 + 0.1


def test_a_reset_takes_everything_back(store: Redis, model: Path) -> None:
    """vLLM empties its caches: the store's blocks are void, and what runs on stores no more."""
    keys, late = _keys("reset"), _keys("late")
    with offloading(store.unix_url, model) as engine:
        request = engine.begin("a")
        engine.store(request, dict.fromkeys(keys, 3))
        engine.reset()
        engine.store(request, dict.fromkeys(late, 4))
    with offloading(store.unix_url, model) as other:
        fresh = other.begin("b")
        assert other.find(fresh, keys[0])[0] is LookupResult.MISS
        assert other.find(fresh, late[0])[0] is LookupResult.MISS


def test_a_reset_may_leave_the_store_alone(store: Redis, model: Path) -> None:
    """Where the operator wants that, only vLLM's own memory is emptied."""
    keys = _keys("kept")
    with offloading(store.unix_url, model, invalidate_on_reset=False) as engine:
        request = engine.begin("a")
        engine.store(request, dict.fromkeys(keys, 3))
        engine.reset()
        assert engine.find(engine.begin("b"), keys[0])[0] is LookupResult.HIT


def test_finished_requests_leave_nothing(store: Redis, model: Path) -> None:
    """Requests that end while they look up or load hold nothing afterwards."""
    keys = _keys("storm", 8)
    with offloading(store.unix_url, model) as first:
        first.store(first.begin("a"), dict.fromkeys(keys, 6))
    with offloading(store.unix_url, model) as engine:
        engine.begin("warm")
        for number in range(200):
            request = ReqContext(req_id=f"r{number}")
            engine.manager.on_new_request(request)
            for key in keys[: 1 + number % 8]:
                engine.manager.lookup(key, request)
            if number % 3:
                engine.step()
            engine.manager.on_request_finished(request)
        engine.settle()
        assert engine.tier._opened is not None
        pool, questions = engine.tier._opened
        figures = pool.figures()
        assert figures.pinned == figures.open_lookups == 0
        assert questions.open <= 1
        assert not engine.tier._jobs


def test_figures_have_their_names(store: Redis, model: Path) -> None:
    """What the tier counts is defined for Prometheus, label by label."""
    keys = _keys("figures")
    with offloading(store.unix_url, model) as engine:
        engine.store(engine.begin("a"), dict.fromkeys(keys, 3))
        engine.tier._told_at = 0.0
        stats = engine.tier.get_stats()
        known = AskOnceTier.build_metric_definitions({})
        assert stats is not None
        for name, values in stats.data["data"].items():
            assert all(len(labels) == len(known[name].labelnames) for labels in values)
        assert stats.data["data"]["askonce_kv_blocks_total"]["store", "done"] == 3


def test_a_wrong_key_is_named(store: Redis, model: Path) -> None:
    """A misspelt setting stops the start and says which."""
    with pytest.raises(ConfigError, match="lookup_deadlin"):  # noqa: SIM117
        with offloading(store.unix_url, model, lookup_deadlin=1):
            pass

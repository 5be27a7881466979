"""The tier that vLLM's offloading puts blocks into and takes them from.

vLLM copies between GPU and host memory; this moves whole rows of that memory to the store and back.
All of it runs in the scheduler's process, and nothing in it waits for the store but `drain_jobs`.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from vllm.v1.kv_offload.base import (
    LookupResult,
    Medium,
    OffloadingCounterMetadata,
    OffloadingGaugeMetadata,
    RequestOffloadingContext,
)
from vllm.v1.kv_offload.tiering.base import JobResult, SecondaryTierManager

from askonce.clock import SystemClock
from askonce.errors import ConfigError, StoreError
from askonce.kv.figures import METRICS
from askonce.kv.vllm.economy import ECONOMY_METRICS, Economy, Shape
from askonce.kv.vllm.identity import identity_of_tier, weights_digest
from askonce.kv.vllm.opening import open_pool
from askonce.kv.vllm.promotions import Promotions
from askonce.kv.vllm.questions import Questions, block_key
from askonce.kv.vllm.settings import settings_from
from askonce.kv.vllm.stats import Increments, is_counter

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from askonce.kv.audit import Sample
    from askonce.kv.jobs import Finished
    from askonce.kv.pool import BlockPool

_EVERY = 1.0
_NAP = 0.001
_KEPT = frozenset({"done", "present", "claimed", "declined"})
"""Ends of a store after which nothing is amiss."""
_VLLM_OWN = ("locality", "enable_kv_events")
"""Keys that vLLM itself reads, or that its own tiers know."""
_FIELDS = {field.name for field in dataclasses.fields(JobResult)}
_log = logging.getLogger(__name__)


class AskOnceTier(SecondaryTierManager):  # type: ignore[misc] # vLLM is not typed here
    """Sealed blocks in Redis, Valkey or Memcached, shared by all replicas."""

    medium: ClassVar[Any] = Medium.STORAGE

    def __init__(
        self,
        offloading_spec: Any,  # noqa: ANN401
        primary_kv_view: memoryview,
        tier_type: str,
        backpressure_detector: Any = None,  # noqa: ANN401
        **told: Any,  # noqa: ANN401
    ) -> None:
        """told: the tier's own keys, see `VllmSettings`. Raises ConfigError."""
        more = (
            {}
            if backpressure_detector is None
            else {"backpressure_detector": backpressure_detector}
        )
        super().__init__(offloading_spec, primary_kv_view, tier_type, **more)
        own = {name: value for name, value in told.items() if name not in _VLLM_OWN}
        self._settings = settings_from(own)
        self._config = offloading_spec.config
        weights_digest(self._settings.weights or self._config.model.name)
        self._row_bytes = primary_kv_view.nbytes // len(primary_kv_view)
        self._clock = SystemClock()
        self._increments = Increments()
        self._told_at = 0.0
        self._opened: tuple[BlockPool, Questions] | None = None
        self._shape = Shape(
            self._config.cache.tokens_per_hash * self._config.cache.blocks_per_chunk,
            self._row_bytes,
            slots=1,
        )
        self._economy = Economy(
            self._shape,
            self._clock,
            gated=self._settings.gate == "on",
            timed=False,
            curve=self._settings.curve() if len(self._config.groups) == 1 else None,
            audit=self._sample(),
        )
        self._auditor = self._settings.auditor(self._config.model.dtype)
        self._promotions: Promotions | None = None
        self._barred = False
        self._jobs: dict[int, Collection[bytes]] = {}
        self._epochs: dict[str, int] = {}
        """In which each request began: what it computes belongs to no later one."""
        self._ended: list[JobResult] = []

    def on_new_request(self, req_context: Any) -> RequestOffloadingContext:  # noqa: ANN401
        """The store is opened with the first: only then vLLM has named a block."""
        self._open()
        if self._opened is not None:
            self._epochs[req_context.req_id] = self._opened[0].epochs.latest
        return RequestOffloadingContext()

    def lookup(self, key: bytes, req_context: Any) -> LookupResult:  # noqa: ANN401
        """RETRY for at most the lookup's deadline."""
        if self._opened is None:
            return LookupResult.MISS
        said = self._opened[1].ask(req_context.req_id, key)
        if said is None:
            return LookupResult.RETRY
        return LookupResult.HIT if said else LookupResult.MISS

    def on_schedule_end(self, context: Any) -> None:  # noqa: ANN401, ARG002
        """One round trip for all that was asked in this step."""
        if self._opened is not None:
            self._opened[1].send()

    def submit_store(self, job_metadata: Any) -> None:  # noqa: ANN401
        """Store rows of the primary tier, unless what they hold was taken back meanwhile."""
        epoch = self._epochs.get(job_metadata.req_context.req_id)
        latest = None if self._opened is None else self._opened[0].epochs.latest
        if not epoch or epoch != latest:
            self._ended.append(JobResult(job_id=job_metadata.job_id, success=False))
        else:
            self._submit(job_metadata, load=False)

    def submit_load(self, job_metadata: Any) -> None:  # noqa: ANN401
        """Load into rows of the primary tier."""
        self._submit(job_metadata, load=True)

    def get_finished_jobs(self) -> Iterable[JobResult]:
        """Each job once."""
        if self._opened is not None:
            self._ended += self._results(self._opened[0])
        ended, self._ended = self._ended, []
        return ended

    def has_pending_work(self) -> bool:
        """Whether a job is under way, so that its end is asked for."""
        return bool(self._jobs or self._ended)

    def on_request_finished(self, req_context: Any) -> None:  # noqa: ANN401
        """Forget what it asked."""
        self._epochs.pop(req_context.req_id, None)
        if self._opened is not None:
            self._opened[1].end(req_context.req_id)
        if self._promotions is not None:
            self._promotions.forget(req_context.req_id)

    def drain_jobs(self) -> None:
        """Wait until no row is touched, and take back what is stored.

        vLLM calls this when it empties its caches, as after new weights, and tells its tiers
        nothing else of it.
        """
        if self._opened is None:
            return
        pool, questions = self._opened
        while self._jobs:
            self._ended += self._results(pool)
            time.sleep(_NAP)
        questions.forget()
        if not self._settings.invalidate_on_reset:
            return
        try:
            pool.invalidate()
        except StoreError as reason:
            _log.error("the store was not told that its KV blocks are void: %s", reason)

    def shutdown(self) -> None:
        """Let go of the store."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None
        self._barred = True

    @classmethod
    def build_metric_definitions(cls, extra_config: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG003
        """The pool's figures, under the names that they have elsewhere."""
        return {
            name: (OffloadingCounterMetadata if is_counter(name) else OffloadingGaugeMetadata)(
                documentation=told, labelnames=tuple(each for each in labels.split(", ") if each)
            )
            for name, (labels, told) in {**METRICS, **ECONOMY_METRICS}.items()
        }

    def get_stats(self) -> Any:  # noqa: ANN401 - OffloadingConnectorStats
        """What has changed, once a second."""
        now = self._clock.monotonic()
        if self._opened is None or now - self._told_at < _EVERY:
            return None
        from vllm.distributed.kv_transfer.kv_connector.v1.offloading.metrics import (
            OffloadingConnectorStats,
        )

        self._told_at = now
        stats = OffloadingConnectorStats()
        samples = chain(self._opened[0].figures().samples(), self._economy.samples())
        for key, value in self._increments.since(samples).items():
            name, *labels = key.split("|")
            add = stats.increase_counter if is_counter(name) else stats.set_gauge
            add(name, value, tuple(labels))
        return stats

    def _open(self) -> None:
        if self._opened is not None or self._barred:
            return
        try:
            identity = identity_of_tier(self._config, self._row_bytes, self._settings)
            pool = open_pool(self._settings, identity)
        except ConfigError as reason:
            self._barred = True
            _log.error("AskOnce shares no KV: %s", reason)
            return
        self._promotions = Promotions(pool, self._economy, self._shape)
        self._opened = pool, Questions(pool, self._clock, self._promotions.worth)

    def _submit(self, job: Any, *, load: bool) -> None:  # noqa: ANN401
        keys = [bytes(key) for key in job.keys]
        if self._opened is None:
            self._ended.append(JobResult(job_id=job.job_id, success=False))
            return
        self._jobs[job.job_id] = keys
        pool, names = self._opened[0], [block_key(key) for key in keys]
        views = self._views(job.chunk_ids)
        if load:
            if self._promotions is not None:
                size = len(keys) * self._row_bytes
                self._promotions.begin(job.job_id, job.req_context.req_id, size)
            pool.submit_load(job.job_id, job.req_context.req_id, names, views)
        else:
            request = job.req_context.req_id
            audits = self._promotions is not None and self._promotions.audits(request)
            auditor = self._auditor if audits else None
            pool.submit_store(job.job_id, "", names, views, auditor=auditor)

    def _sample(self) -> Sample | None:
        """None where a row holds several kinds of KV."""
        alike = len(self._config.groups) == 1
        return self._settings.sample(self._config.model.dtype) if alike else None

    def _views(self, chunks: Sequence[int]) -> list[memoryview]:
        rows = np.asarray(self._primary_kv_view)
        return [memoryview(rows[int(chunk)]).cast("B") for chunk in chunks]

    def _results(self, pool: BlockPool) -> list[JobResult]:
        """Of jobs that vLLM asked for and that have ended since the last call."""
        ended = pool.finished()
        return [self._result(each) for each in ended if self._is_asked_for(each)]

    def _is_asked_for(self, ended: Finished) -> bool:
        return ended.kind == "store" or self._promotions is None or self._promotions.end(ended)

    def _result(self, ended: Finished) -> JobResult:
        keys = list(self._jobs.pop(ended.id))
        good = {"done"} if ended.kind == "load" else _KEPT
        done = [key for key, said in zip(keys, ended.outcomes, strict=True) if said in good]
        if ended.kind == "load" and self._opened is not None:
            self._opened[1].failed(set(keys) - set(done))
        told = {
            "job_id": ended.id,
            "success": len(done) == len(keys),
            "successful_keys": done if ended.kind == "load" and done else None,
            "transfer_time": ended.seconds,
            "transfer_bytes": ended.size,
        }
        return JobResult(**{name: value for name, value in told.items() if name in _FIELDS})

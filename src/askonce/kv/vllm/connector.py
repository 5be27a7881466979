"""The connector that vLLM builds twice: once in its scheduler, once in each worker.

Loads are asynchronous: a request waits for its blocks, the others run on. Whatever goes wrong is
computed instead.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    SupportsHMA,
)

from askonce.clock import SystemClock
from askonce.errors import ConfigError
from askonce.kv.vllm.adapters import Adapters
from askonce.kv.vllm.carrier import Carrier
from askonce.kv.vllm.economy import Economy, Shape
from askonce.kv.vllm.identity import identity_of, obstacle
from askonce.kv.vllm.opening import open_hearsay, open_pool
from askonce.kv.vllm.planner import Plan, Planner, Rules
from askonce.kv.vllm.settings import settings_from
from askonce.kv.vllm.stats import AskOncePromMetrics, AskOnceStats, Increments
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from askonce.kv.admission import Admission
    from askonce.kv.audit import Sample
    from askonce.kv.auditor import Auditor
    from askonce.kv.hearsay import Hearsay
    from askonce.kv.namespace import Identity
    from askonce.kv.pool import BlockPool
    from askonce.kv.vllm.staging import Bytes
    from askonce.kv.vllm.stats import Sample as Figure

_EVERY = 1.0
"""Seconds between two reports of figures."""
_PARTING = Seconds(1.0)
"""For what is under way at shutdown: vLLM kills its processes after a few seconds."""
_log = logging.getLogger(__name__)


class AskOnceMetadata(KVConnectorMetadata):  # type: ignore[misc] # vLLM is not typed here
    """A step's plan on its way to the workers."""

    def __init__(self, plan: Plan) -> None:
        """Carry it."""
        self.plan = plan


class AskOnceConnector(KVConnectorBase_V1, SupportsHMA):  # type: ignore[misc] # vLLM is not typed here
    """Shares KV blocks with other engines through a store, where it can be sure of them."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:  # noqa: ANN401
        """Raises ConfigError for settings under which a fault of the store would fail requests."""
        super().__init__(vllm_config, role, kv_cache_config)
        transfer = vllm_config.kv_transfer_config
        if getattr(transfer, "kv_load_failure_policy", "recompute") != "recompute":
            raise ConfigError(
                'set "kv_load_failure_policy": "recompute" in the KV transfer configuration:'
                " vLLM's default fails a request when a block cannot be loaded"
            )
        self._settings = settings_from(transfer.kv_connector_extra_config)
        self._cache = kv_cache_config
        self._clock = SystemClock()
        self._told_at = 0.0
        self._increments = Increments()
        self._pool: BlockPool | None = None
        self._planner: Planner | None = None
        self._economy: Economy | None = None
        self._hearsay: Hearsay | None = None
        self._carrier: Carrier | None = None
        self._auditor: Auditor | None = None
        self._failed_blocks: set[int] = set()
        self._no_forward = False
        self._adapters = Adapters()
        why = obstacle(vllm_config, kv_cache_config)
        if why is not None:
            _log.warning("AskOnce shares no KV: %s", why)
            return
        self._open(identity_of(vllm_config, kv_cache_config, self._settings))

    @property
    def requires_kv_delivery(self) -> bool:
        """A block that is not stored is computed again; nothing waits for it."""
        return False

    def on_new_request(self, request: Any) -> None:  # noqa: ANN401
        """Follow it."""
        if self._planner is not None:
            self._planner.begin(request)

    def get_num_new_matched_tokens(
        self,
        request: Any,  # noqa: ANN401
        num_computed_tokens: int,
    ) -> tuple[int | None, bool]:
        """None for at most the lookup's deadline."""
        if self._planner is None:
            return 0, False
        return self._planner.match(request, num_computed_tokens)

    def update_state_after_alloc(
        self,
        request: Any,  # noqa: ANN401
        blocks: Any,  # noqa: ANN401
        num_external_tokens: int,
    ) -> None:
        """Plan the load."""
        if self._planner is not None and num_external_tokens:
            self._planner.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:  # noqa: ANN401
        """The step's plan."""
        if self._planner is None:
            return AskOnceMetadata(Plan([], [], [], None, [], []))
        return AskOnceMetadata(self._planner.plan(scheduler_output))

    def update_connector_output(self, connector_output: Any) -> None:  # noqa: ANN401
        """Learn what the step took, and which loads have ended or failed."""
        if self._planner is None:
            return
        self._planner.stepped()
        bad = set(connector_output.invalid_block_ids or ())
        failed = set(getattr(connector_output, "failed_recving", None) or ())
        for request in connector_output.finished_recving or ():
            self._planner.loaded(request, bad, failed=request in failed)

    def request_finished(self, request: Any, block_ids: list[int]) -> tuple[bool, None]:  # noqa: ANN401, ARG002
        """Its blocks are free at once: what is stored was copied before."""
        if self._planner is not None:
            self._planner.end(request.request_id)
        return False, None

    def request_finished_all_groups(
        self,
        request: Any,  # noqa: ANN401
        block_ids: tuple[list[int], ...],
    ) -> tuple[bool, None]:
        """As with one group."""
        return self.request_finished(request, block_ids[0] if block_ids else [])

    def bind_gpu_block_pool(self, gpu_block_pool: Any) -> None:  # noqa: ANN401
        """What the engine itself caches is taken back together with the store's."""
        if self._planner is not None:
            self._planner.may_forget(gpu_block_pool.reset_prefix_cache)

    def reset_cache(self) -> bool | None:
        """Take back everything stored for this model, on all replicas, if that is wanted."""
        if self._planner is None or not self._settings.invalidate_on_reset:
            return None
        return self._planner.reset()

    def register_kv_caches(self, kv_caches: Mapping[str, Any]) -> None:
        """Where the blocks are; raises ConfigError where they are not in host memory."""
        if self._pool is None:
            return
        layers = [_rows(name, tensor, self._cache.num_blocks) for name, tensor in kv_caches.items()]
        self._carrier = Carrier(
            self._pool,
            layers,
            rank=self._vllm_config.parallel_config.rank,
            staging_bytes=self._settings.staging_bytes,
            auditor=self._auditor,
        )

    def start_load_kv(self, forward_context: Any, **_: Any) -> None:  # noqa: ANN401
        """Begin this step's loads."""
        self._no_forward = forward_context.attn_metadata is None
        if self._carrier is not None:
            self._carrier.load(self._plan().loads)

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are not layer by layer."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_: Any) -> None:  # noqa: ANN401
        """Blocks are stored whole."""

    def wait_for_save(self) -> None:
        """Copy out what this step has completed; waits for nothing."""
        if self._carrier is not None:
            self._carrier.store(self._plan())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        """Requests that wait no longer, loaded or not."""
        if self._carrier is None:
            return None, None
        self._carrier.drop(finished_req_ids)
        settled = self._carrier.settle(idle=self._no_forward)
        self._failed_blocks |= settled.bad_blocks
        return None, settled.received or None

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Blocks that must be computed after all."""
        failed, self._failed_blocks = self._failed_blocks, set()
        return failed

    def get_kv_connector_stats(self) -> AskOnceStats | None:
        """What has changed, once a second."""
        now = self._clock.monotonic()
        if self._pool is None or now - self._told_at < _EVERY:
            return None
        self._told_at = now
        return AskOnceStats(data=self._increments.since(self._samples()))

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> AskOnceStats:
        """For vLLM's log."""
        return AskOnceStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: Any,  # noqa: ANN401
        metric_types: Mapping[type, type],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> AskOncePromMetrics:
        """For vLLM's own `/metrics`."""
        return AskOncePromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)

    def shutdown(self) -> None:
        """Let go of the store; what is under way may be lost."""
        self._adapters.close()
        if self._hearsay is not None:
            self._hearsay.close()
        if self._pool is not None:
            self._pool.close(_PARTING)

    def _open(self, identity: Identity) -> None:
        self._pool = open_pool(self._settings, identity)
        self._pool.epochs.refresh()
        self._auditor = self._settings.auditor(identity.layout.kv_dtype)
        if self._role is not KVConnectorRole.SCHEDULER:
            return
        transfer = self._vllm_config.kv_transfer_config
        tokens = identity.layout.block_tokens
        rules = Rules(
            block_tokens=tokens,
            ranks=identity.layout.tensor_parallel,
            min_blocks=max(1, -(-self._settings.min_tokens // tokens)),
            loads=transfer.is_kv_consumer,
            stores=transfer.is_kv_producer,
            shard_bytes=identity.layout.block_bytes,
        )
        admission = self._settings.learned(rules.ranks * rules.shard_bytes)
        audit = self._settings.sample(identity.layout.kv_dtype) if rules.stores else None
        self._hearsay = open_hearsay(self._settings, identity, admission, self._clock)
        self._economy = self._economy_of(rules, admission, audit)
        self._planner = Planner(self._pool, self._adapters, rules, self._economy)

    def _economy_of(
        self, rules: Rules, admission: Admission | None, audit: Sample | None
    ) -> Economy:
        scheduler = self._vllm_config.scheduler_config
        size = rules.ranks * rules.shard_bytes
        return Economy(
            Shape(rules.block_tokens, size, scheduler.max_num_seqs),
            self._clock,
            gated=self._settings.gate == "on",
            timed=not getattr(scheduler, "async_scheduling", False),
            admission=admission,
            curve=self._settings.curve(),
            audit=audit,
        )

    def _plan(self) -> Plan:
        plan: Plan = self._get_connector_metadata().plan
        return plan

    def _samples(self) -> Iterator[Figure]:
        if self._pool is not None:
            yield from self._pool.figures().samples()
        if self._economy is not None:
            yield from self._economy.samples()
        if self._hearsay is not None:
            yield from self._hearsay.samples()
        if self._carrier is not None:
            yield "askonce_kv_loaded_blocks_total", (), self._carrier.loaded_blocks
            yield "askonce_kv_lost_blocks_total", (), self._carrier.lost_blocks
            yield "askonce_kv_unstored_blocks_total", (), self._carrier.unstored_blocks


def _rows(name: str, tensor: Any, blocks: int) -> Bytes:  # noqa: ANN401
    """A layer's cache as bytes, a row for each block."""
    import torch

    if tensor.device.type != "cpu":
        raise ConfigError(f"the KV cache is on {tensor.device}: use the tier, AskOnceTier, there")
    if tensor.shape[0] != blocks or not tensor[0].is_contiguous():
        raise ConfigError(f"the KV cache of {name} is laid out as {tuple(tensor.shape)}")
    rows: Bytes = tensor.flatten(1).view(torch.uint8).numpy()
    return rows

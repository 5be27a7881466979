"""A connector as one should not write it: blocks are named by their tokens, and by nothing else."""

from __future__ import annotations

from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
)

SHELF: dict[tuple[int, ...], float] = {}
"""First value of a block by all tokens up to its end."""


class _Plan(KVConnectorMetadata):  # type: ignore[misc]
    def __init__(self, saves: list[Any], loads: list[Any]) -> None:
        self.saves, self.loads = saves, loads


class Careless(KVConnectorBase_V1):  # type: ignore[misc]
    """Loads at once, and knows no fault."""

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._size = kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        self._layers: list[Any] = []

    def get_num_new_matched_tokens(self, request: Any, computed: int) -> tuple[int, bool]:
        tokens = list(request.all_token_ids)
        count = 0
        while tuple(tokens[: (count + 1) * self._size]) in SHELF:
            count += 1
        return min(count, (len(tokens) - 1) // self._size) * self._size - computed, False

    def update_state_after_alloc(self, request: Any, blocks: Any, tokens: int) -> None:
        """Nothing to remember."""

    def build_connector_meta(self, scheduled: Any) -> Any:
        saves: list[Any] = []
        loads: list[Any] = []
        for new in scheduled.scheduled_new_reqs:
            tokens = new.prompt_token_ids or [0] * new.prompt_len
            for index, block in enumerate(new.block_ids[0]):
                end = (index + 1) * self._size
                if end <= len(tokens):
                    into = loads if end <= new.num_computed_tokens else saves
                    into.append((tuple(tokens[:end]), block))
        return _Plan(saves, loads)

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        self._layers = list(kv_caches.values())

    def start_load_kv(self, forward_context: Any, **_: Any) -> None:
        for name, block in self._get_connector_metadata().loads:
            for layer in self._layers:
                layer[block] = SHELF[name]

    def wait_for_layer_load(self, layer_name: str) -> None:
        """All are loaded."""

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **_: Any) -> None:
        """All at the end."""

    def wait_for_save(self) -> None:
        for name, block in self._get_connector_metadata().saves:
            SHELF[name] = float(self._layers[0][block].flatten()[0])

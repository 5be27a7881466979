"""Real engines find sound blocks sound, and a wrong block under a good seal."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.kv.vllm.replicas import ON_ENGINES, replica, transfer
from tests.servers.redis import redis

from askonce.kv.audit import LOSSY, TOLERANCES
from askonce.kv.block import HEADER_BYTES, BlockKey, Sealer, told_by

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from askonce.kv.block import Codec

    Prompts = Callable[[int, int], list[int]]

pytestmark = ON_ENGINES
TOKENS = 16
SECRET = b"0123456789abcdef"
SLACK: dict[str, Any] = {"lookup_deadline": 1.0, "load_deadline": 5.0}
AUDITED = "askonce_kv_audited_blocks_total|"


@pytest.mark.parametrize("storage", ["raw", "int8"])
def test_healthy_hits_audit_clean_and_a_wrong_block_is_found(
    model: Path, tmp_path: Path, prompts: Prompts, storage: Codec
) -> None:
    """Each block that another engine stored agrees; one with another text's KV takes all back."""
    (tmp_path / "secret").write_bytes(SECRET)
    how = {**SLACK, "storage": storage, "secret_file": str(tmp_path / "secret")}
    healthy, spoilt = prompts(500, 1), prompts(500, 2)
    with redis("redis7", tmp_path) as store:
        with replica(model, tmp_path, transfer(store.unix_url, **how)) as first:
            clean = _filled(first, healthy)
            before = _blocks(store.port)
            cold = _filled(first, spoilt)
            _put_wrong_block(store.port, before, storage)
            misled = first.tell("generate", prompts=[spoilt], tokens=TOKENS)
        assert misled["cached"] == [480]
        assert misled["tokens"] != cold["tokens"]
        how |= {"audit": 1.0, "audit_action": "invalidate"}
        with replica(model, tmp_path, transfer(store.unix_url, **how)) as second:
            told = second.tell("generate", prompts=[healthy], tokens=TOKENS)
            found = second.tell("settle")
            assert (told["cached"], told["tokens"]) == ([0], clean["tokens"])
            assert _verdicts(found) == (15, 0, 0)
            worst = found["worker"]["askonce_kv_audit_error_max"]
            assert worst <= (TOLERANCES["float32"] if storage == "raw" else LOSSY)
            print(f"\n{storage}: largest error of 15 sound blocks {worst:.2e}")
            told = second.tell("generate", prompts=[spoilt], tokens=TOKENS)
            found = second.tell("settle")
            assert (told["cached"], told["tokens"]) == ([0], cold["tokens"])
            assert _verdicts(found) == (29, 1, 0)
            assert found["scheduler"]["askonce_kv_audited_hits_total"] == 2
            assert "are not what this engine computes" in second.log
            time.sleep(1.1)
            again = second.tell("generate", prompts=[healthy[:480] + [5] * 20], tokens=1)
            assert again["cached"] == [0]
            assert second.tell("settle")["scheduler"]["askonce_kv_audited_hits_total"] == 2


def _filled(engine: Any, prompt: list[int]) -> dict[str, Any]:
    cold: dict[str, Any] = engine.tell("generate", prompts=[prompt], tokens=TOKENS)
    assert cold["cached"] == [0]
    engine.tell("settle")
    assert engine.tell("reset")["done"]
    return cold


def _verdicts(found: dict[str, Any]) -> tuple[float, ...]:
    names = ("agrees", "disagrees", "undone")
    return tuple(found["worker"][AUDITED + name] for name in names)


def _blocks(port: int) -> set[bytes]:
    import redis as driver

    with driver.Redis(port=port) as client:
        keys: list[bytes] = client.keys("ak1:*")
        return {key for key in keys if b"epoch" not in key and key[-1:] != b"+"}


def _put_wrong_block(port: int, others: set[bytes], codec: Codec) -> None:
    """Another prompt's KV for one of the fresh blocks, sealed as whoever has the secret can."""
    import redis as driver

    with driver.Redis(port=port) as client:
        target = min(_blocks(port) - others)
        wrong = client.get(min(others))[HEADER_BYTES:]
        told = told_by(client.get(target)[:HEADER_BYTES])
        assert told is not None
        name, _, group = target.rsplit(b":", 1)[1].partition(b".")
        key = BlockKey(bytes.fromhex(name.decode()), int(group))
        sealer = Sealer(told.namespace, secret=SECRET)
        client.set(target, sealer.seal(key, wrong, epoch=told.epoch, codec=codec) + wrong)

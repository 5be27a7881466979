"""The gate: load only what pays."""

from __future__ import annotations

import pytest

from askonce.kv.curves import published
from askonce.kv.gate import Decision, Gate, Load, Offer
from askonce.kv.prefill import PrefillModel, StoreModel
from askonce.units import Bytes, Seconds, Tokens

BLOCK = Tokens(512)
SIZE = Bytes(512 * 131_072)


def gate(bytes_per_second: float, gpu: str = "H100") -> Gate:
    """For Llama 8B behind such a link."""
    curve = published(gpu, "llama-8b", 1)
    assert curve is not None
    return Gate(PrefillModel(curve), StoreModel(Seconds(0.002), bytes_per_second))


def offer(found: int = 16, tokens: int = 9000, local: int = 0) -> Offer:
    """A request of which the store has blocks."""
    return Offer(
        tokens=Tokens(tokens),
        local=Tokens(local),
        found=found,
        block_tokens=BLOCK,
        block_bytes=SIZE,
    )


def test_a_fast_store_is_loaded_from() -> None:
    """At 11 GB/s an H100 loads all that is there."""
    decision = gate(11e9).decide(offer(), Load())
    assert (decision.blocks, decision.why, decision.size) == (16, "pays", 16 * SIZE)
    assert decision.saved == decision.compute - decision.load > 0
    assert decision.explain().startswith("load 16 blocks: ")


def test_a_slow_store_is_not() -> None:
    """At 1 GB/s the H100 computes, and says by how much that is faster."""
    decision = gate(1e9).decide(offer(), Load())
    assert (decision.blocks, decision.why, decision.size) == (0, "recompute", Bytes(0))
    assert decision.load > decision.compute
    assert decision.saved == Seconds(0.0)
    assert decision.explain().startswith("compute: ")


def test_an_a100_loads_where_an_h100_does_not() -> None:
    """The same link pays for a slower engine."""
    assert gate(3e9, "A100").decide(offer(), Load()).blocks == 16
    assert gate(3e9, "H100").decide(offer(), Load()).blocks == 0


def test_nothing_stored_is_nothing_to_decide() -> None:
    """Without a block, or with a prompt that is local to its last token, nothing is loaded."""
    for one in (offer(found=0), offer(found=3, tokens=1000, local=999)):
        decision = gate(11e9).decide(one, Load())
        assert decision.why == "nothing-stored"
        assert decision.explain() == "nothing stored: compute"


def test_the_last_token_is_always_computed() -> None:
    """A prompt of whole blocks leaves its last one to the engine."""
    assert gate(11e9).decide(offer(found=16, tokens=16 * 512), Load()).blocks == 15


def test_what_arrives_while_others_are_computed_is_free() -> None:
    """Behind a queue even a slow store is worth as many blocks as come in time."""
    part = gate(1e9).decide(offer(), Load(wait=Seconds(0.5)))
    assert part.why == "part-pays"
    assert 0 < part.blocks < 16
    assert part.load < part.compute
    assert gate(1e9).decide(offer(), Load(wait=Seconds(60.0))).why == "pays"


def test_a_busy_link_is_counted() -> None:
    """Bytes ahead of a load make it slower, so less pays."""
    quick = gate(11e9)
    assert quick.decide(offer(), Load(ahead=Bytes(10 * 10**9))).blocks == 0
    assert quick.decide(offer(), Load(link_use=0.95)).blocks == 0


def test_a_busy_engine_is_relieved() -> None:
    """Where the engine is the bottleneck, a load that is slightly slower is still worth it."""
    slow = gate(4.5e9)
    assert slow.decide(offer(), Load()).blocks == 0
    assert slow.decide(offer(), Load(engine_use=0.9)).blocks == 16
    assert slow.decide(offer(), Load(engine_use=1.0)).blocks == 16


def test_refusals_are_probed_now_and_then() -> None:
    """Each 64th refusal asks for one block beside the request: a store may become fast again."""
    slow = gate(1e9)
    probes = [slow.decide(offer(), Load()).probe for _ in range(128)]
    assert [place for place, probe in enumerate(probes) if probe] == [63, 127]


def test_a_gate_learns_that_a_store_became_slow() -> None:
    """After loads that took ten times as long, it computes."""
    quick = gate(11e9)
    for _ in range(100):
        quick.store.observe(Bytes(16 * SIZE), Seconds(1.0), ahead=Bytes(0))
    assert quick.decide(offer(), Load()).why == "recompute"


def test_decisions_are_deterministic() -> None:
    """Two gates that saw the same decide the same."""

    def decide() -> list[Decision]:
        one = gate(5e9)
        return [one.decide(offer(found=found), Load()) for found in range(1, 17)]

    assert decide() == decide()


@pytest.mark.parametrize(("rate", "gpu", "most"), [(11e9, "H100", 4096), (3e9, "A100", 1024)])
def test_the_shortest_prefix_that_pays_is_told(rate: float, gpu: str, most: int) -> None:
    """It is some blocks long; behind a link that is too slow there is none."""
    shortest = gate(rate, gpu).pays_from(BLOCK, SIZE)
    assert shortest is not None
    assert BLOCK <= shortest <= most
    assert gate(1e8, gpu).pays_from(BLOCK, SIZE) is None

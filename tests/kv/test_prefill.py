"""What prefill and loading cost, learned."""

from __future__ import annotations

import random

import pytest

from askonce.kv.curves import estimated, published
from askonce.kv.prefill import PrefillModel, StoreModel
from askonce.units import Bytes, Seconds, Tokens


def believed() -> PrefillModel:
    """A model that starts from arithmetic."""
    return PrefillModel(estimated("A100", 1, parameters=8e9, attention=32 * 4096))


def test_an_engine_is_learned_from_its_own_times() -> None:
    """From an estimate alone, a published curve is met within a tenth after 200 prefills."""
    truth = published("A100", "llama-8b", 1)
    assert truth is not None
    model, draw = believed(), random.Random(0)
    for _ in range(200):
        tokens = draw.randrange(200, 20_000)
        seconds = Seconds(truth.seconds(tokens) * draw.gauss(1, 0.05))
        model.observe(Tokens(tokens), seconds, context=Tokens(0), busy=0.0)
    for tokens in (1000, 8000, 16_000):
        assert model.predict(Tokens(tokens), Tokens(0)) == pytest.approx(
            truth.seconds(tokens), rel=0.1
        )
    assert model.spread < 0.2


def test_a_context_makes_prefill_slower() -> None:
    """The same new tokens cost more behind a long prefix, and less than prefix and all."""
    model = believed()
    alone = model.predict(Tokens(1000), Tokens(0))
    behind = model.predict(Tokens(1000), Tokens(30_000))
    assert alone < behind < model.predict(Tokens(31_000), Tokens(0))


def test_a_busy_engine_is_slower() -> None:
    """Load slows prefill by what was seen, and an engine never seen busy is not slowed."""
    model = believed()
    idle = model.predict(Tokens(4000), Tokens(0))
    assert model.predict(Tokens(4000), Tokens(0), busy=1.0) == idle
    for turn in range(300):
        busy = (turn % 3) / 2
        model.observe(Tokens(4000), Seconds(0.2 * (1 + 0.5 * busy)), context=Tokens(0), busy=busy)
    slowed = model.predict(Tokens(4000), Tokens(0), 1.0) / model.predict(Tokens(4000), Tokens(0))
    assert slowed == pytest.approx(1.5, abs=0.12)


def test_a_store_is_learned_from_its_loads() -> None:
    """Round trip and bandwidth are found, with loads that queue behind others."""
    model, draw = StoreModel(Seconds(0.001), 1e9), random.Random(0)
    for _ in range(300):
        size, ahead = int(10 ** draw.uniform(4, 9)), draw.randrange(10**6)
        seconds = Seconds(0.005 + (size + ahead) / 2.5e9)
        model.observe(Bytes(size), seconds, ahead=Bytes(ahead))
    assert 1 / model.per_byte == pytest.approx(2.5e9, rel=0.05)
    assert model.round_trip == pytest.approx(0.005, rel=0.5)
    assert model.predict(Bytes(10**9), Bytes(10**9)) == pytest.approx(0.805, rel=0.05)


def test_a_prediction_of_nothing_teaches_no_load() -> None:
    """A model whose curve is zero can still observe."""
    from askonce.kv.curves import Curve

    model = PrefillModel(Curve(name="none", fixed=0.0, per_token=0.0, per_square=0.0))
    model.observe(Tokens(100), Seconds(0.1), context=Tokens(0), busy=0.5)
    assert model.slope == 0.0

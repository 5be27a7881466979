"""The plan: does a tier pay?"""

from __future__ import annotations

import msgspec
import pytest

from askonce.errors import ConfigError
from askonce.kv.curves import Curve
from askonce.kv.plan import Plan, Question, planned
from askonce.kv.sizes import Shape

SHAPE = Shape(layers=32, kv_heads=8, head_dim=128, heads=32, parameters=8e9)
H100 = Question(shape=SHAPE, gpu="H100", model="llama-8b", shards=8)


def pays(plan: Plan) -> dict[tuple[str, float], int | None]:
    """The shortest prefix that pays, by KV type and link."""
    return {(row.dtype, row.gigabits): row.pays_from for row in plan.rows}


def test_an_h100_needs_a_fast_link() -> None:
    """At 10 Gb/s 8B KV is never worth loading below 128k tokens; at 100 Gb/s some hundred are."""
    found = pays(planned(H100))
    assert found["bfloat16", 10.0] is None
    assert 100 <= (found["bfloat16", 100.0] or 0) <= 1200
    assert (found["fp8", 100.0] or 0) < (found["bfloat16", 100.0] or 0)


def test_the_reasons_are_given() -> None:
    """Bytes, parity, and what limits are said in words."""
    plan = planned(msgspec.structs.replace(H100, shards=1, gigabits=(1.0, 100.0)))
    text = " ".join(plan.reasons)
    assert "131,072 bytes a token" in text
    assert "1 shards of 2.0 GB/s" in text
    assert "an idle engine never gains" not in text
    assert plan.rows[1].limited_by == "store"
    assert plan.parity["bfloat16"] == pytest.approx(5.5e9, rel=0.15)


def test_where_nothing_pays_it_says_so() -> None:
    """A slow link alone, with an estimate for a curve, on a model with windows."""
    shape = msgspec.structs.replace(SHAPE, other_layers=4)
    plan = planned(Question(shape=shape, gpu="B200", gigabits=(1.0,)))
    text = " ".join(plan.reasons)
    assert "an idle engine never gains" in text
    assert "estimate" in text
    assert "4 layers" in text


def test_a_measured_curve_is_taken() -> None:
    """What the engine showed beats what was published."""
    curve = Curve(name="mine", fixed=0.01, per_token=1e-3, per_square=0.0, points=(0.01,))
    plan = planned(msgspec.structs.replace(H100, curve=curve, gpu="unheard of"))
    assert plan.curve == "mine"
    assert all(row.pays_from for row in plan.rows if row.gigabits >= 10)


def test_an_unknown_gpu_or_curve_is_refused() -> None:
    """The error lists the known ones."""
    with pytest.raises(ConfigError, match="H100"):
        planned(msgspec.structs.replace(H100, gpu="ENIAC"))
    with pytest.raises(ConfigError, match="llama-8b on 1 x H100"):
        planned(msgspec.structs.replace(H100, parallel=3))

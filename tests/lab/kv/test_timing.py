"""Time to first token, simulated."""

from __future__ import annotations

import pytest

from askonce.kv.curves import Curve, estimated, published
from askonce.lab.kv.replicas import Routed
from askonce.lab.kv.tiers import Content
from askonce.lab.kv.timing import PublishedPrefill, Rule, Setting, Times, play
from askonce.lab.kv.traces import Request, Trace

FLAT = Curve(name="flat", fixed=0.0, per_token=0.001, per_square=0.0)


def quiet() -> None:
    """No progress."""


def timed(requests: list[Request], found: list[int], rule: Rule, gigabits: float = 10.0) -> Times:
    """On one replica that has nothing itself; a block is 1000 tokens and 100 MB."""
    trace = Trace(name="made", block_tokens=1000, requests=tuple(requests))
    routed = Routed((0,) * len(requests), (0,) * len(requests))
    content = Content(policy="askonce", found=tuple(found), written=(0,) * len(requests), dropped=0)
    setting = Setting(
        truth=FLAT, believed=FLAT, gigabits=gigabits, replicas=1, block_bytes=100_000_000
    )
    return play(trace, routed, content, setting=setting, rule=rule, tick=quiet)


def test_requests_wait_for_each_other() -> None:
    """Two prompts at once: the second begins when the first is done."""
    both = [Request(0.0, 1000, 0, ()), Request(0.0, 1000, 0, ())]
    first, second = timed(both, [0, 0], "none").first_token
    assert first == pytest.approx(1.0, rel=0.2)
    assert second == pytest.approx(2.0, rel=0.2)


def test_a_load_takes_the_link_and_saves_prefill() -> None:
    """200 MB take 0.18 s at 9 Gb/s; what is left to compute is one token's."""
    times = timed([Request(0.0, 2001, 0, (1, 2))], [2], "always")
    assert times.mean == pytest.approx(0.18, rel=0.5)
    assert (times.ledger.store_tokens, times.ledger.computed_tokens) == (2000, 1)
    assert times.ledger.bytes_read == 200_000_000


def test_loads_wait_for_each_other() -> None:
    """The link is shared: the second of two loads comes later."""
    both = [Request(0.0, 2001, 0, (1, 2)), Request(0.0, 2001, 0, (1, 2))]
    first, second = timed(both, [2, 2], "always", gigabits=1.0).first_token
    assert second > 1.5 * first


def test_the_gate_computes_where_loading_is_slower() -> None:
    """Over 0.1 Gb/s it loads nothing, and says how often."""
    requests = [Request(10.0 * turn, 2001, 0, (1, 2)) for turn in range(20)]
    gate = timed(requests, [2] * 20, "gate", gigabits=0.1)
    assert gate.ledger.refused == 20
    assert gate.mean == pytest.approx(timed(requests, [2] * 20, "none").mean)
    assert timed(requests, [2] * 20, "always", gigabits=0.1).ledger.lost == 20


def test_published_points_are_met() -> None:
    """At its points a curve is what was published, and beyond them it goes on bending."""
    curve = published("H100", "llama-8b", 1)
    assert curve is not None
    truth = PublishedPrefill(curve)
    assert truth.seconds(8192, 0) == pytest.approx(0.2)
    assert truth.seconds(64, 0) < truth.seconds(128, 0) == pytest.approx(0.0076)
    assert truth.seconds(65536, 0) > 2.2 * truth.seconds(32768, 0)
    assert truth.seconds(1024, 31744) < truth.seconds(32768, 0)
    guess = estimated("H100", 1, parameters=8e9, attention=131_072)
    assert PublishedPrefill(guess).seconds(1000, 0) == pytest.approx(guess.seconds(1000))


def test_percentiles_of_nothing_are_zero() -> None:
    """An empty trace has no times."""
    times = timed([], [], "none")
    assert (times.mean, times.share(0.99)) == (0.0, 0.0)

"""Pairs measured once."""

from __future__ import annotations

import numpy as np
import pytest

from askonce.lab.measured import Direct, Measured, Sight
from askonce.lab.stream import Near, Neighbourhood
from askonce.trust.alignment import pack
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Seen, Text, see

_THINGS = ("password", "router", "two invoices", "parcel", "kitchen", "garden")
_WAYS = ("How do I reset my {}?", "please do not reset the {}", "{}: reset it", "my {}")
_WORDS = [way.format(thing) for way in _WAYS for thing in _THINGS]


class Counting(Direct):
    """Counts what it measures."""

    measured = 0

    def see(self, query: int, near: Near) -> Seen:
        """Measure, and count."""
        self.measured += len(near.rows)
        return super().see(query, near)


@pytest.fixture
def texts() -> list[Text]:
    rng = np.random.default_rng(0)
    found = []
    for words in _WORDS:
        rows = rng.standard_normal((len(words.split()) + 2, 16)).astype(np.float32)
        mean = rows.mean(axis=0)
        found.append(
            Text(analyse(words), pack(range(len(rows)), rows), mean / np.linalg.norm(mean))
        )
    return found


def _same(one: Sight, other: Sight, query: int, near: Near) -> bool:
    left, right = one.see(query, near), other.see(query, near)
    keys = zip(left.touched, right.touched, strict=True)
    return (
        left.raw.tobytes() == right.raw.tobytes()
        and left.products.tobytes() == right.products.tobytes()
        and left.cosines.tobytes() == right.cosines.tobytes()
        and all(a.tolist() == b.tolist() for a, b in keys)
    )


def test_what_is_kept_is_what_was_measured(texts: list[Text]) -> None:
    """To the last bit, the first time and later, within the depth that is kept and beyond it."""
    neighbourhood = Neighbourhood(np.stack([text.vector for text in texts]))
    kept, direct = Measured(texts, deepest=12), Direct(texts)
    for seed in range(4):
        stored = np.random.default_rng(seed).random(len(texts)) < 0.6
        for query in range(len(texts)):
            assert _same(kept, direct, query, neighbourhood.near(query, stored, 5))


def test_a_pair_alone_is_seen_as_beside_others(texts: list[Text]) -> None:
    """To the last bit: what is kept of a pair must not depend on what it first stood beside."""
    near = Near(np.arange(6), np.full(6, 0.5, dtype=np.float32))
    beside = Direct(texts).see(9, near)
    for place in range(6):
        alone = see(texts[9], [texts[place]], near.cosines[place : place + 1])
        assert alone.raw.tobytes() == beside.raw[place : place + 1].tobytes()
        assert alone.products.tolist() == beside.products[place : place + 1].tolist()


def test_a_pair_is_measured_once(texts: list[Text]) -> None:
    """However often it comes up; none are measured for an empty cache."""
    neighbourhood = Neighbourhood(np.stack([text.vector for text in texts]))
    kept, counting = Measured(texts), Counting(texts)
    kept.direct = counting
    stored = np.ones(len(texts), dtype=np.bool_)
    for _ in range(3):
        for query in range(len(texts)):
            kept.see(query, neighbourhood.near(query, stored, 5))
    assert counting.measured == 5 * len(texts)
    assert not len(kept.see(0, neighbourhood.near(0, np.zeros_like(stored), 5)).raw)

"""The semantic tier over a scripted embedder and index."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from askonce.errors import EmbedderBusy, TextTooLong
from askonce.events import GuardVetoed
from askonce.ports import IndexedText, Neighbour, ReadText
from askonce.testing.embedders import TokenEmbedder
from askonce.testing.sink import RecordingSink
from askonce.tiers.semantic import SemanticTier
from askonce.trust.sight import Verdict
from askonce.units import Cosine, Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

PARTITION = b"p" * 32
ONE = np.array([1.0, 0.0], dtype=np.float32)


class OneVector:
    """An embedder to which all texts are alike."""

    id = "one"
    dim = 2

    def __init__(self, expected: float = 0.0) -> None:
        self.expected = expected
        self.texts: list[str] = []

    def expected_time(self, text: str) -> Seconds:
        """As scripted."""
        return Seconds(self.expected)

    async def embed(self, text: str) -> Vector:
        """The one vector."""
        if text == "long":
            raise TextTooLong
        self.texts.append(text)
        return ONE

    async def close(self) -> None:
        """Nothing to release."""


class ListIndex:
    """An index that finds what it is told to find."""

    def __init__(self, *near: Neighbour) -> None:
        self.near = list(near)
        self.added: list[tuple[bytes, IndexedText, Vector]] = []
        self.deleted: list[bytes] = []
        self.asked: list[tuple[bytes, int]] = []

    async def add(self, partition: bytes, item: IndexedText, vector: Vector) -> None:
        """Remember."""
        self.added.append((partition, item, vector))

    async def search(self, partition: bytes, vector: Vector, *, k: int) -> list[Neighbour]:
        """As scripted."""
        self.asked.append((partition, k))
        return self.near

    async def delete(self, keys: Sequence[bytes]) -> int:
        """Remember."""
        self.deleted += keys
        return len(keys)

    async def clear(self) -> int:
        """Nothing to clear."""
        return 0

    async def count(self) -> int:
        """Nothing to count."""
        return 0

    async def close(self) -> None:
        """Nothing to release."""


def near(score: float, text: str, key: bytes = b"k") -> Neighbour:
    """A candidate."""
    return Neighbour(Cosine(score), IndexedText(key, text, UnixTime(9e9)))


def tier_over(
    index: ListIndex, embedder: OneVector | None = None, sink: RecordingSink | None = None
) -> SemanticTier:
    """A tier with floor 0.9 and a budget of one second."""
    return SemanticTier(
        embedder or OneVector(),
        index,
        sink=sink or RecordingSink(),
        floor=Cosine(0.9),
        neighbours=5,
        budget=Seconds(1.0),
    )


async def test_candidates_at_the_floor_pass() -> None:
    """A candidate exactly at the floor is looked at, one below is not."""
    index = ListIndex(near(0.95, "What is a cat?"), near(0.9, "What is a cat"), near(0.899, "x"))
    finding = await tier_over(index).find(PARTITION, "What is a cat?")
    assert [neighbour.score for neighbour in finding.passed()] == [0.95, 0.9]
    assert finding.read.vector is ONE
    assert finding.detail == ""
    assert index.asked == [(PARTITION, 5)]


async def test_a_score_that_is_no_number_never_passes() -> None:
    """A broken vector gives no proof of likeness."""
    finding = await tier_over(ListIndex(near(math.nan, "What is a cat?"))).find(PARTITION, "a cat")
    assert list(finding.passed()) == []


async def test_a_guard_vetoes_and_says_so() -> None:
    """A vetoed candidate is skipped and told; the next one may still pass."""
    sink = RecordingSink()
    asked = "Convert 100 USD to EUR"
    index = ListIndex(
        near(0.99, "Convert 200 USD to EUR"),
        near(0.98, "Convert 300 USD to EUR"),
        near(0.97, asked, b"same"),
    )
    finding = await tier_over(index, sink=sink).find(PARTITION, asked)
    assert [neighbour.item.key for neighbour in finding.passed()] == [b"same"]
    vetoes = sink.of(GuardVetoed)
    assert len(vetoes) == 2
    assert finding.detail == f"veto_{vetoes[0].guard}"


async def test_an_embedder_past_its_budget_is_not_asked() -> None:
    """A text that would take too long is shed before it costs anything."""
    embedder = OneVector(expected=1.001)
    with pytest.raises(EmbedderBusy):
        await tier_over(ListIndex(), embedder).find(PARTITION, "q")
    assert embedder.texts == []
    embedder.expected = 1.0
    await tier_over(ListIndex(), embedder).find(PARTITION, "q")
    assert embedder.texts == ["q"]


async def test_a_question_is_embedded_once() -> None:
    """A vector that the search has made is used for keeping, else one is made."""
    embedder, index = OneVector(), ListIndex()
    tier = tier_over(index, embedder)
    item = IndexedText(b"k", "q", UnixTime(1.0))
    await tier.keep(PARTITION, item, ReadText(ONE, b""))
    assert embedder.texts == []
    await tier.keep(PARTITION, item, None)
    assert embedder.texts == ["q"]
    assert index.added == [(PARTITION, item, ONE)] * 2
    with pytest.raises(TextTooLong):
        await tier.keep(PARTITION, IndexedText(b"k", "long", UnixTime(1.0)), None)


async def test_questions_are_forgotten_by_key() -> None:
    """Forgetting goes to the index."""
    index = ListIndex()
    await tier_over(index).forget([b"a", b"b"])
    assert index.deleted == [b"a", b"b"]


async def test_token_vectors_are_kept_where_a_verifier_wants_them() -> None:
    """They go into the index with the question, and nowhere else cost a byte."""
    for tokens in (False, True):
        index = ListIndex()
        tier = SemanticTier(
            TokenEmbedder(),
            index,
            sink=RecordingSink(),
            floor=Cosine(0.9),
            neighbours=5,
            budget=Seconds(1.0),
            tokens=tokens,
        )
        await tier.keep(PARTITION, IndexedText(b"k" * 32, "A question", UnixTime(9e9)), None)
        assert [bool(item.tokens) for _, item, _ in index.added] == [tokens]


async def test_a_verdict_decides_instead_of_the_floor() -> None:
    """What evidence says is served in its order, and the guards that spoke are told."""
    sink = RecordingSink()
    index = ListIndex(near(0.5, "What is a cat?", b"a"), near(0.4, "What is a dog?", b"b"))
    finding = await tier_over(index, sink=sink).find(PARTITION, "Tell me what a dog is")
    finding.weighed(Verdict(order=(1, 0), vetoes=("content",)))
    assert [neighbour.item.key for neighbour in finding.passed()] == [b"b", b"a"]
    assert finding.detail == "veto_content"
    assert [event.guard for event in sink.of(GuardVetoed)] == ["content"]

"""Which stored questions have the same answer: ids by question, bounded."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from askonce.trust.answers import Answers

if TYPE_CHECKING:
    from collections.abc import Sequence


class KnownAnswers:
    """Ids of answers by the digest of their question; the longest unused are forgotten."""

    def __init__(self, limit: int = 20_000) -> None:
        """limit: questions remembered."""
        self._limit = limit
        self._answers = Answers()
        self._ids: OrderedDict[bytes, int] = OrderedDict()

    def __len__(self) -> int:
        """How many questions are known."""
        return len(self._ids)

    def of(self, question: bytes) -> int | bytes:
        """Equal for two questions with the same answer; the digest itself while none is known."""
        known = self._ids.get(question)
        return question if known is None else self._answers.resolve(known)

    def place(self, question: bytes, near: Sequence[bytes], same: Sequence[bool | None]) -> None:
        """Take the judge's verdicts on a fresh answer beside those of its neighbours."""
        labelled = [
            (one, label) for one, label in zip(near, same, strict=True) if label is not None
        ]
        ids = [self._id(one) for one, _ in labelled]
        self._keep(question, self._answers.place(ids, [label for _, label in labelled]))

    def _id(self, question: bytes) -> int:
        known = self._ids.get(question)
        if known is None:
            known = self._answers.place([], [])
        self._keep(question, known)
        return known

    def _keep(self, question: bytes, answer: int) -> None:
        self._ids[question] = answer
        self._ids.move_to_end(question)
        if len(self._ids) > self._limit:
            self._ids.popitem(last=False)

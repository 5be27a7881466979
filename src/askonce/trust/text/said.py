"""Two answers read and laid side by side, as far as the rules that judge them ask."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from askonce.trust.text import comparison, structure
from askonce.trust.text.comparison import SOFT_FORMS, Comparison
from askonce.trust.text.dates import dated
from askonce.trust.text.quantities import quantities
from askonce.trust.text.reading import Reading, analyse
from askonce.trust.text.wording import (
    Polarity,
    asks_yes_or_no,
    bare,
    letters,
    polarity,
    spans,
    unmarked,
)

if TYPE_CHECKING:
    from askonce.trust.text.quantities import Quantity

BRIEF = 40
"""Words up to which one detail that differs makes an answer another."""

CURT = 6
"""Words up to which an answer is little more than its details."""

_ARTICLES = frozenset({"a", "an", "the"})


class Said:
    """One answer, read as far as the rules ask."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.json = structure.json_value(text)
        self.code = structure.fenced(text)
        prose = self.code.prose
        self.listed = structure.listed(prose)
        self.spans = spans(prose)
        """Code inside the text."""
        self.marked = unmarked(prose)
        self.letters = letters(self.marked)
        self.plain, self.ambiguous_dates = dated(bare(self.marked))

    @cached_property
    def reading(self) -> Reading:
        return analyse(self.plain)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """What makes equal answers equal."""
        words = self.reading.plain
        idle = _ARTICLES - {letter.lower() for letter in self.letters}
        return tuple(word for word in words if word not in idle) or words

    @cached_property
    def amounts(self) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
        return quantities(self.plain)


class Pair(msgspec.Struct, frozen=True):
    left: Said
    right: Said
    asked: Reading
    """The question: its words are no news in an answer."""
    polarities: tuple[Polarity, Polarity]
    texts: Comparison
    news_left: frozenset[str]
    """What only the left answer says, and the question does not."""
    news_right: frozenset[str]

    @property
    def content_left(self) -> frozenset[str]:
        return self.news_left - SOFT_FORMS

    @property
    def content_right(self) -> frozenset[str]:
        return self.news_right - SOFT_FORMS

    @property
    def comparable(self) -> bool:
        """Whether one detail that differs makes these answers different ones."""
        lengths = len(self.texts.left.words), len(self.texts.right.words)
        if max(lengths) > BRIEF:
            return self.texts.alike >= 0.8
        return min(lengths) <= CURT or self.texts.alike >= 0.5


def paired(left: Said, right: Said, question: str) -> Pair:
    asked = analyse(question)
    texts = comparison.compare(left.reading, right.reading)
    known = frozenset(asked.bag)
    yes_or_no = asks_yes_or_no(question)
    return Pair(
        left=left,
        right=right,
        asked=asked,
        polarities=(
            polarity(left.marked, asked=yes_or_no),
            polarity(right.marked, asked=yes_or_no),
        ),
        texts=texts,
        news_left=texts.only_left - known,
        news_right=texts.only_right - known,
    )

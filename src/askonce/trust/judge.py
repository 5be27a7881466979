"""Whether two answers say the same, by rules: evidence for `same` or `different`, else `unsure`.

The rules err on the side of `unsure`, which costs a label and never spoils one. They read English.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from askonce.ports import Verdict
from askonce.trust import comparison, structure
from askonce.trust.comparison import SOFT_FORMS, Comparison
from askonce.trust.dates import dated
from askonce.trust.guards import GUARDS
from askonce.trust.quantities import UNITS, quantities
from askonce.trust.reading import Reading, analyse
from askonce.trust.wording import Polarity, asks_yes_or_no, bare, polarity, refuses, spans, unmarked
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.ports import Agreement
    from askonce.trust.quantities import Quantity

LONGEST = 12_000
"""Characters; of longer answers only equality is seen."""

CACHED = 400
"""Characters up to which a reading is kept for the next comparison."""

BRIEF = 40
"""Words up to which one detail that differs makes an answer another."""

TERSE = 4
"""Content words up to which an answer is a name or a value, and other words another one."""

LIST_ITEMS = 40

COMPARED_ITEMS = 8
"""Items of a list without an equal one up to which they are compared one by one."""

_GUARDED = ("units", "dates", "negation", "opposites")
_ARTICLES = frozenset({"a", "an", "the"})
_NO_WORDING = frozenset(
    {"approximately", "about", "around", "roughly", "approx", "circa", "~", "≈"}
)


class Thresholds(msgspec.Struct, frozen=True):
    """Cosines of answers' embeddings from which on, or down to which, the rules' doubt ends."""

    same: Cosine
    different: Cosine


class _Said:
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
        self.plain, self.ambiguous_dates = dated(bare(self.marked))

    @cached_property
    def reading(self) -> Reading:
        read = analyse if len(self.plain) <= CACHED else analyse.__wrapped__
        return read(self.plain)

    @cached_property
    def key(self) -> tuple[str, ...]:
        words = self.reading.plain
        return tuple(word for word in words if word not in _ARTICLES) or words

    @cached_property
    def amounts(self) -> tuple[tuple[Quantity, ...], tuple[str, ...]]:
        return quantities(self.plain)


class _Pair(msgspec.Struct, frozen=True):
    left: _Said
    right: _Said
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
    def brief(self) -> bool:
        return max(len(self.texts.left.words), len(self.texts.right.words)) <= BRIEF


def compare(a: str, b: str, question: str = "") -> Verdict:
    """Compare two answers, to the question if it is given; linear in their length."""
    if a.strip() == b.strip():
        return Verdict("same", "equal")
    if not a.strip() or not b.strip():
        return Verdict("different", "empty")
    if max(len(a), len(b)) > LONGEST:
        return Verdict("unsure", "long")
    left, right = _Said(a), _Said(b)
    for rule in _STRUCTURES:
        found = rule(left, right)
        if found is not None:
            return found
    return _prose(left, right, question)


def with_similarity(verdict: Verdict, cosine: Cosine, thresholds: Thresholds) -> Verdict:
    """The verdict, or for `unsure` answers without evidence what their embeddings' cosine says.

    A reason to doubt that the rules found is never outvoted by likeness.
    """
    if verdict.agreement != "unsure":
        return verdict
    if cosine <= thresholds.different:
        return Verdict("different", "unlike")
    if verdict.how == "wording" and cosine >= thresholds.same:
        return Verdict("same", "alike")
    return verdict


def _json(left: _Said, right: _Said) -> Verdict | None:
    if structure.NO_JSON in (left.json, right.json):
        return None
    return Verdict(structure.compare_json(left.json, right.json, _strings), "json")


def _strings(one: str, other: str) -> Agreement:
    if one.strip().casefold() == other.strip().casefold():
        return "same"
    if len(one.split()) == len(other.split()) == 1:
        return "different"
    return compare(one, other).agreement


def _code(left: _Said, right: _Said) -> Verdict | None:
    if not left.code.text and not right.code.text:
        return None
    free = left.code.free and right.code.free
    one = structure.code_lines(left.code.text or left.text, free=free)
    other = structure.code_lines(right.code.text or right.text, free=free)
    return Verdict(structure.compare_code(one, other), "code")


def _lists(left: _Said, right: _Said) -> Verdict | None:
    if left.listed is None or right.listed is None:
        return None
    one, other = left.listed.items, right.listed.items
    if max(len(one), len(other)) > LIST_ITEMS:
        return Verdict("unsure", "long")
    matched = _matches(one, other)
    if len(matched) == len(one) == len(other):
        ordered = left.listed.numbered and right.listed.numbered and matched != sorted(matched)
        return Verdict("unsure", "order") if ordered else Verdict("same", "list")
    terse = all(len(item.split()) <= TERSE for item in one + other)
    apart = terse and (len(one) == len(other) or not matched)
    return Verdict("different" if apart else "unsure", "list")


def _matches(one: tuple[str, ...], other: tuple[str, ...]) -> list[int]:
    """For each item that has one, the place of its partner, which has no other."""
    free: dict[str, list[int]] = {}
    for place in reversed(range(len(other))):
        free.setdefault(_flat(other[place]), []).append(place)
    found = [free[key].pop() if free.get(key := _flat(item)) else None for item in one]
    left = sorted(place for places in free.values() for place in places)
    if len(left) <= COMPARED_ITEMS:
        for number, item in enumerate(one):
            if found[number] is None:
                found[number] = _partner(item, other, left)
    return [place for place in found if place is not None]


def _flat(item: str) -> str:
    return unmarked(item).casefold().rstrip(".;,")


def _partner(item: str, other: tuple[str, ...], left: list[int]) -> int | None:
    for place in left:
        if compare(item, other[place]).agreement == "same":
            left.remove(place)
            return place
    return None


_STRUCTURES: tuple[Callable[[_Said, _Said], Verdict | None], ...] = (_json, _code, _lists)


def _prose(left: _Said, right: _Said, question: str) -> Verdict:
    if left.ambiguous_dates != right.ambiguous_dates:
        return Verdict("unsure", "date")
    if left.key == right.key:
        return Verdict("same", "equal") if left.key else Verdict("unsure", "wordless")
    pair = _paired(left, right, question)
    for rule in _PROSE:
        found = rule(pair)
        if found is not None:
            return found
    return Verdict("unsure", "wording")


def _paired(left: _Said, right: _Said, question: str) -> _Pair:
    asked = analyse(question)
    texts = comparison.compare(left.reading, right.reading)
    known = frozenset(asked.bag)
    yes_or_no = asks_yes_or_no(question)
    return _Pair(
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


def _refusal(pair: _Pair) -> Verdict | None:
    left, right = refuses(pair.left.marked), refuses(pair.right.marked)
    if left and right:
        return Verdict("same", "refusal")
    return Verdict("different", "refusal") if left or right else None


def _polarity(pair: _Pair) -> Verdict | None:
    left, right = pair.polarities
    if left and right and left != right:
        return Verdict("different", "polarity")
    if min(len(pair.left.key), len(pair.right.key)) <= 2 and _agree(pair):
        return Verdict("same", "polarity")
    return None


def _agree(pair: _Pair) -> bool:
    """Whether both say yes, or both no, without conditions."""
    left, right = pair.polarities
    return bool(left) and left == right and not _hedged(pair)


def _hedged(pair: _Pair) -> bool:
    hedges = {"but", "unless", "except", "only", "if", "however", "although", "though", "depend"}
    return bool(hedges & (pair.texts.left.bag.keys() | pair.texts.right.bag.keys()))


def _amounts(pair: _Pair) -> Verdict | None:
    """Answers that are numbers and next to nothing else."""
    (left, beside_left), (right, beside_right) = pair.left.amounts, pair.right.amounts
    if not left or len(left) != len(right):
        return None
    if _news(beside_left, pair) or _news(beside_right, pair):
        return None
    couples = list(zip(left, right, strict=True))
    if _same_amounts(pair):
        return None if _signed_apart(pair) else Verdict("same", "number")
    if all(one.equals(other) or one.rounds(other) for one, other in couples):
        return Verdict("unsure", "rounded")
    return Verdict("different", "number")


def _same_amounts(pair: _Pair) -> bool:
    """Whether both answers hold the same quantities in the same order, some at least."""
    (left, _), (right, _) = pair.left.amounts, pair.right.amounts
    if not left or len(left) != len(right):
        return False
    return all(one.equals(other) for one, other in zip(left, right, strict=True))


def _news(words: tuple[str, ...], pair: _Pair) -> bool:
    """Whether words beside a number say more than the question and the other answer."""
    silent = SOFT_FORMS | _NO_WORDING | UNITS.keys() | frozenset(pair.asked.bag)
    shared = pair.texts.left.bag.keys() & pair.texts.right.bag.keys()
    return any(
        word not in silent and not analyse(word).bag.keys() <= silent | shared for word in words
    )


def _signed_apart(pair: _Pair) -> bool:
    return GUARDS["negation"](pair.texts)


def _details(pair: _Pair) -> Verdict | None:
    """A number, name, code, date or unit on either side that excludes the other's."""
    texts = pair.texts
    counted = _same_amounts(pair)
    for name in ("names", "codes") if counted else ("numbers", "names", "codes"):
        left = pair.news_left & getattr(texts.left, name)
        right = pair.news_right & getattr(texts.right, name)
        if left and right:
            return Verdict("different" if pair.brief or texts.alike >= 0.6 else "unsure", name)
    if len(pair.left.spans) and len(pair.right.spans) and not pair.left.spans & pair.right.spans:
        return Verdict("different" if pair.brief else "unsure", "codes")
    for name in ("dates", "negation", "opposites") if counted else _GUARDED:
        if GUARDS[name](texts):
            return Verdict("different" if pair.brief or texts.alike >= 0.8 else "unsure", name)
    if GUARDS["order"](texts):
        moved = texts.only_left or texts.only_right
        return Verdict("unsure" if moved else "different", "order")
    return None


def _near(pair: _Pair) -> Verdict | None:
    """Answers that differ in small words and in the question's own."""
    if pair.content_left or pair.content_right:
        return None
    doubt = next((name for name in ("scope", "person", "mood") if GUARDS[name](pair.texts)), None)
    if doubt is not None:
        return Verdict("unsure", doubt)
    if pair.left.reading.bag.keys() <= SOFT_FORMS or pair.right.reading.bag.keys() <= SOFT_FORMS:
        return Verdict("same", "polarity") if _agree(pair) else None
    if len(pair.left.key) == len(pair.right.key) == 1:
        return Verdict("unsure", "spelling")
    return Verdict("same", "near")


def _more(pair: _Pair) -> Verdict | None:
    """One answer says all that the other does, and a detail of its own."""
    if pair.content_left and pair.content_right:
        return None
    more = pair.content_left or pair.content_right
    hard = any(
        more & (said.numbers | said.names | said.codes)
        for said in (pair.texts.left, pair.texts.right)
    )
    return Verdict("unsure", "more") if hard else None


def _terse(pair: _Pair) -> Verdict | None:
    """Names and values with no word in common."""
    if _same_amounts(pair):
        return None
    sides = (
        (pair.left.reading, pair.content_left),
        (pair.right.reading, pair.content_right),
    )
    for reading, news in sides:
        own = {
            word for word in reading.bag if word not in SOFT_FORMS and word not in pair.asked.bag
        }
        if not news or own - news or len(own) > TERSE:
            return None
    return Verdict("different", "words")


_PROSE: tuple[Callable[[_Pair], Verdict | None], ...] = (
    _refusal,
    _polarity,
    _amounts,
    _details,
    _near,
    _more,
    _terse,
)

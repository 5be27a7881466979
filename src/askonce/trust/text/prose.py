"""Rules for answers in prose: each finds a verdict, or leaves it to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.ports import Verdict
from askonce.trust.text.comparison import SOFT_FORMS
from askonce.trust.text.guards import GUARDS
from askonce.trust.text.quantities import UNITS
from askonce.trust.text.reading import analyse
from askonce.trust.text.said import CURT, paired
from askonce.trust.text.wording import refuses
from askonce.trust.text.words import form

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.trust.text.said import Pair, Said

TERSE = 2
"""Content words up to which an answer is a name or a value, and other words another one."""


def _forms(words: str) -> frozenset[str]:
    return frozenset(map(form, words.split()))


_HARMLESS = _forms(
    """
    be have do a an the it this that these those there i you we they he she one my your our their
    his her its of to in on at for with by and as will would please also just very here thing
    """
)
"""Soft words that change nothing where they come or go."""

_RELATIONS = _forms(
    """
    over under before after until till since from to than more less least most up down per every
    only without within above below between atleast atmost not no first last
    """
)
"""Soft words that change what a number beside them means."""

_NO_WORDING = frozenset(
    {"approximately", "about", "around", "roughly", "approx", "circa", "~", "≈"}
)


def compare_prose(left: Said, right: Said, question: str) -> Verdict:
    if left.ambiguous_dates != right.ambiguous_dates:
        return Verdict("unsure", "date")
    if left.key == right.key:
        return Verdict("same", "equal") if left.key else Verdict("unsure", "wordless")
    pair = paired(left, right, question)
    for rule in _RULES:
        found = rule(pair)
        if found is not None:
            return found
    return Verdict("unsure", "wording")


def _refusal(pair: Pair) -> Verdict | None:
    left, right = refuses(pair.left.marked), refuses(pair.right.marked)
    if left and right:
        return Verdict("same", "refusal")
    return Verdict("different", "refusal") if left or right else None


def _polarity(pair: Pair) -> Verdict | None:
    left, right = pair.polarities
    if left and right and left != right:
        return Verdict("different", "polarity")
    if min(len(pair.left.key), len(pair.right.key)) <= 2 and _agree(pair):
        return Verdict("same", "polarity")
    return None


def _agree(pair: Pair) -> bool:
    """Whether both say yes, or both no, without conditions."""
    left, right = pair.polarities
    return bool(left) and left == right and not _hedged(pair)


def _hedged(pair: Pair) -> bool:
    hedges = {"but", "unless", "except", "only", "if", "however", "although", "though", "depend"}
    return bool(hedges & (pair.texts.left.bag.keys() | pair.texts.right.bag.keys()))


def _amounts(pair: Pair) -> Verdict | None:
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


def _same_amounts(pair: Pair) -> bool:
    """Whether both answers hold the same quantities in the same order, some at least."""
    (left, _), (right, _) = pair.left.amounts, pair.right.amounts
    if not left or len(left) != len(right):
        return False
    return all(one.equals(other) for one, other in zip(left, right, strict=True))


def _news(words: tuple[str, ...], pair: Pair) -> bool:
    """Whether words beside a number say more than the question and the other answer."""
    asked = pair.asked.bag.keys() | frozenset(pair.asked.plain)
    silent = SOFT_FORMS | _NO_WORDING | UNITS.keys() | asked
    shared = pair.texts.left.bag.keys() & pair.texts.right.bag.keys()
    return any(
        word not in silent and not analyse(word).bag.keys() <= silent | shared for word in words
    )


def _signed_apart(pair: Pair) -> bool:
    """Whether small words around equal numbers differ, or the numbers' places."""
    texts = pair.texts
    small = (texts.only_left | texts.only_right) - pair.asked.bag.keys()
    return bool(small & _RELATIONS) or any(GUARDS[name](texts) for name in ("negation", "order"))


def _details(pair: Pair) -> Verdict | None:
    """A number, name or code on either side that excludes the other's."""
    texts = pair.texts
    kinds = ("names", "codes") if _same_amounts(pair) else ("numbers", "names", "codes")
    for name in kinds:
        left = pair.news_left & getattr(texts.left, name)
        right = pair.news_right & getattr(texts.right, name)
        if left and right:
            return Verdict("different" if pair.comparable else "unsure", name)
    if pair.left.letters != pair.right.letters:
        both = pair.left.letters and pair.right.letters and pair.comparable
        return Verdict("different" if both else "unsure", "letters")
    spans_left, spans_right = pair.left.spans, pair.right.spans
    if spans_left and spans_right and not spans_left & spans_right:
        return Verdict("different" if pair.comparable else "unsure", "codes")
    return None


def _contrast(pair: Pair) -> Verdict | None:
    """A unit, date, negation, opposite or exchanged role between texts that are alike."""
    texts = pair.texts
    for name in ("dates", "opposites") if _same_amounts(pair) else ("units", "dates", "opposites"):
        if GUARDS[name](texts):
            return Verdict("different" if pair.comparable else "unsure", name)
    reworded = bool(pair.content_left and pair.content_right)
    if GUARDS["negation"](texts):
        return Verdict("unsure" if reworded or not pair.comparable else "different", "negation")
    if GUARDS["order"](texts):
        moved = texts.only_left or texts.only_right
        return Verdict("unsure" if moved else "different", "order")
    return None


def _near(pair: Pair) -> Verdict | None:
    """Answers that differ in small words and in the question's own."""
    if pair.content_left or pair.content_right:
        return None
    if (pair.news_left | pair.news_right) - _HARMLESS - {"'s"}:
        return Verdict("unsure", "small")
    doubt = next((name for name in _DOUBTS if GUARDS[name](pair.texts)), None)
    if doubt is not None:
        return Verdict("unsure", doubt)
    if _reordered(pair):
        return Verdict("unsure", "order")
    if pair.left.reading.bag.keys() <= SOFT_FORMS or pair.right.reading.bag.keys() <= SOFT_FORMS:
        return Verdict("same", "polarity") if _agree(pair) else None
    if len(pair.left.key) == len(pair.right.key) == 1:
        return Verdict("unsure", "spelling")
    return Verdict("same", "near")


def _reordered(pair: Pair) -> bool:
    """Whether content words changed places around a word that puts them in an order."""
    left, right = pair.texts.left, pair.texts.right
    if not _RELATIONS & left.bag.keys() & right.bag.keys():
        return False
    shared = (left.bag.keys() & right.bag.keys()) - SOFT_FORMS
    one, other = ([word for word in said.forms if word in shared] for said in (left, right))
    return one != other


_DOUBTS = ("scope", "person", "question", "mood")


def _more(pair: Pair) -> Verdict | None:
    """One answer says all that the other does, and a detail of its own; or one word differs."""
    if pair.content_left and pair.content_right:
        swapped = len(pair.content_left) == len(pair.content_right) == 1
        return Verdict("unsure", "detail") if swapped and pair.texts.alike >= 0.5 else None
    more = pair.content_left or pair.content_right
    hard = any(
        more & (said.numbers | said.names | said.codes)
        for said in (pair.texts.left, pair.texts.right)
    )
    return Verdict("unsure", "more") if hard else None


def _terse(pair: Pair) -> Verdict | None:
    """Names and values with no word in common."""
    if _same_amounts(pair) or any(pair.polarities):
        return None
    sides = (
        (pair.left.reading, pair.content_left),
        (pair.right.reading, pair.content_right),
    )
    for reading, news in sides:
        own = reading.bag.keys() - pair.asked.bag.keys()
        content = own - SOFT_FORMS
        if not news or content - news or len(content) > TERSE or len(own) > CURT - TERSE:
            return None
    return Verdict("different", "words")


_RULES: tuple[Callable[[Pair], Verdict | None], ...] = (
    _refusal,
    _polarity,
    _amounts,
    _details,
    _contrast,
    _near,
    _terse,
    _more,
)

"""Whether two answers say the same, by rules: evidence for `same` or `different`, else `unsure`.

The rules err on the side of `unsure`, which costs a label and never spoils one. They read English.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from askonce.ports import Verdict
from askonce.trust.text import structure
from askonce.trust.text.prose import compare_prose
from askonce.trust.text.said import Said
from askonce.trust.text.wording import unmarked
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Callable

    from askonce.ports import Agreement

LONGEST = 12_000
"""Characters; of longer answers only equality is seen."""

SHORT_ITEM = 4
"""Words up to which a list's item is a name or a value."""

LIST_ITEMS = 40

COMPARED_ITEMS = 8
"""Items of a list without an equal one up to which they are compared one by one."""


class Thresholds(msgspec.Struct, frozen=True):
    """Cosines of answers' embeddings from which on, or down to which, the rules' doubt ends."""

    same: Cosine
    different: Cosine


def compare(a: str, b: str, question: str = "") -> Verdict:
    """Compare two answers, to the question if it is given; linear in their length."""
    if a.strip() == b.strip():
        return Verdict("same", "equal")
    if not a.strip() or not b.strip():
        return Verdict("different", "empty")
    if max(len(a), len(b)) > LONGEST:
        return Verdict("unsure", "long")
    left, right = Said(a), Said(b)
    for rule in _STRUCTURES:
        found = rule(left, right)
        if found is not None:
            return found
    return compare_prose(left, right, question)


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


def _json(left: Said, right: Said) -> Verdict | None:
    if structure.NO_JSON in (left.json, right.json):
        return None
    return Verdict(structure.compare_json(left.json, right.json, _strings), "json")


def _strings(one: str, other: str) -> Agreement:
    if one.strip().casefold() == other.strip().casefold():
        return "same"
    if len(one.split()) == len(other.split()) == 1:
        return "different"
    return compare(one, other).agreement


def _code(left: Said, right: Said) -> Verdict | None:
    if not left.code.text and not right.code.text:
        return None
    free = left.code.free and right.code.free
    one = structure.code_lines(left.code.text or left.text, free=free)
    other = structure.code_lines(right.code.text or right.text, free=free)
    return Verdict(structure.compare_code(one, other), "code")


def _lists(left: Said, right: Said) -> Verdict | None:
    if left.listed is None or right.listed is None:
        return None
    one, other = left.listed.items, right.listed.items
    if max(len(one), len(other)) > LIST_ITEMS:
        return Verdict("unsure", "long")
    matched = _matches(one, other)
    if len(matched) == len(one) == len(other):
        ordered = left.listed.numbered and right.listed.numbered and matched != sorted(matched)
        return Verdict("unsure", "order") if ordered else Verdict("same", "list")
    terse = all(len(item.split()) <= SHORT_ITEM for item in one + other)
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


_STRUCTURES: tuple[Callable[[Said, Said], Verdict | None], ...] = (_json, _code, _lists)

"""Two readings laid side by side: what they share and what is left over on each side."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

import msgspec

from askonce.trust.text.lexicon import SOFT
from askonce.trust.text.reading import Reading
from askonce.trust.text.words import exclude, form, kin

SOFT_FORMS = frozenset(form(word) for word in SOFT) | SOFT | {"'s"}
"""Forms that are no content."""
_MOST_LEFT = 12
"""Left-over words that are looked at one by one; more are never matched by spelling."""


class Comparison(msgspec.Struct, frozen=True, gc=False):
    """The two texts, aligned as bags of forms."""

    left: Reading
    right: Reading
    only_left: frozenset[str]
    only_right: frozenset[str]
    hard_left: frozenset[str]
    """Left-over content words of the left text."""
    hard_right: frozenset[str]
    """Left-over content words of the right text."""
    alike: float
    """Shared share of all forms (Dice), function words included."""
    akin: float
    """The same over content words alone."""


def compare(left: Reading, right: Reading) -> Comparison:
    """Align two readings; linear but for a bounded number of left-over words."""
    only_left = _surplus(left.bag, right.bag)
    only_right = _surplus(right.bag, left.bag)
    shared = len(left.forms) - sum(only_left.values())
    if only_left and only_right:
        shared += _match(only_left, only_right, left, right)
    total = len(left.forms) + len(right.forms)
    hard_left, hard_right = only_left.keys() - SOFT_FORMS, only_right.keys() - SOFT_FORMS
    surplus = sum([only_left[word] for word in hard_left])
    surplus += sum([only_right[word] for word in hard_right])
    hard = _hard(left.forms) + _hard(right.forms)
    return Comparison(
        left=left,
        right=right,
        only_left=frozenset(only_left),
        only_right=frozenset(only_right),
        hard_left=frozenset(hard_left),
        hard_right=frozenset(hard_right),
        alike=2 * shared / total if total else 1.0,
        akin=(hard - surplus) / hard if hard else 1.0,
    )


@lru_cache(maxsize=2048)
def _hard(forms: tuple[str, ...]) -> int:
    return sum([word not in SOFT_FORMS for word in forms])


@lru_cache(maxsize=256)
def _compounds(forms: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    return {a + b: (a, b) for a, b in pairwise(forms)}


def _surplus(bag: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    if bag == other:
        return {}
    return {word: n - other.get(word, 0) for word, n in bag.items() if n > other.get(word, 0)}


def _match(
    only_left: dict[str, int], only_right: dict[str, int], left: Reading, right: Reading
) -> int:
    """Take kin, acronyms and split compounds out of both left-overs; returns how many met."""
    if len(only_left) > _MOST_LEFT or len(only_right) > _MOST_LEFT:
        return 0
    met = _joined(only_left, only_right, right) + _joined(only_right, only_left, left)
    named = left.names | right.names
    for one in sorted(only_left.keys() - named):
        written = left.stems.get(one, one)
        for other in sorted(only_right.keys() - named):
            meant = right.stems.get(other, other)
            near = one[:1] == other[:1] and kin(one, other)  # kin share their first letter
            if near or (written[:1] == meant[:1] and _spelt_alike(one, other, written, meant)):
                del only_left[one], only_right[other]
                met += 1
                break
    return met


def _spelt_alike(one: str, other: str, written: str, meant: str) -> bool:
    """Whether one side misspells a word that a synonym stands for on the other."""
    return (written, meant) != (one, other) and not exclude(one, other) and kin(written, meant)


def _joined(only: dict[str, int], others: dict[str, int], reading: Reading) -> int:
    """Take out words of one side that are two words, or initials, on the other."""
    met = 0
    pairs = _compounds(reading.forms)
    for word in sorted(only):
        if word in pairs:
            parts = others.keys() & pairs[word]
        elif 3 <= len(word) <= 5 and word in reading.initials:
            start = reading.initials.index(word)
            spelt = {form(part) for part in reading.words[start : start + len(word)]}
            parts = others.keys() & spelt
        else:
            continue
        if parts:
            for part in parts:
                del others[part]
            del only[word]
            met += 1
    return met

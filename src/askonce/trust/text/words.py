"""Word forms: from a spelling to the form that is compared, and which forms are kin."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from askonce.trust.text.lexicon import IRREGULAR, listed
from askonce.trust.text.opposites import CONFUSED, COUNTERPARTS, EXCLUSIVE, OPPOSITES
from askonce.trust.text.synonyms import SYNONYMS

if TYPE_CHECKING:
    from collections.abc import Callable

_VOWELS = frozenset("aeiouy")
_SILENT_E = re.compile("[^aeiouy]{1,2}[aeiouy][^aeiouywx]|..[^cvzs][cvzs]|..dg")
_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "mis", "anti")


def _unsuffixed(word: str, suffix: str) -> str:
    """The base before -ing or -ed, its doubled consonant undone or its silent e put back."""
    base = word[: -len(suffix)]
    if len(base) > 3 and base[-1] == base[-2] and base[-1] not in "lsze":
        return base[:-1]
    return base + "e" if _SILENT_E.fullmatch(base) else base


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """The word without plural, -ing and -ed; two inflections of a word meet in one stem."""
    base = IRREGULAR.get(word)
    if base is not None:
        return base
    if len(word) < 4 or not word.isascii():
        return word
    for suffix, kept in (("ies", 4), ("ied", 4), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(suffix) and len(word) >= kept:
            return _stripped(word, suffix)
    return word[:-1] if word[-1] == "e" != word[-2] and len(word) > 5 else word


def _stripped(word: str, suffix: str) -> str:
    if suffix in {"ies", "ied"}:
        return word[:-3] + "y"
    if suffix == "s":
        if word.endswith(("ss", "us", "is")):
            return word
        return stem(word[:-1])
    if suffix == "es":
        return word[:-2] if word.endswith(("sses", "ches", "shes", "xes")) else stem(word[:-1])
    bare = _unsuffixed(word, suffix)
    if not _VOWELS & set(bare):
        return word
    return bare


def groups(table: str) -> list[str]:
    """The groups of a table, parted by bars or ends of line."""
    return [group for line in table.strip().splitlines() for group in line.split("|")]


def _synonym_table() -> dict[str, str]:
    table: dict[str, str] = {}
    for group in groups(SYNONYMS):
        first, *others = group.split()
        target = table.get(stem(first), stem(first))
        for word in (first, *others):
            table.setdefault(stem(word), target)
    return table


_SYNONYM = _synonym_table()


@lru_cache(maxsize=16384)
def form(word: str) -> str:
    """The form under which a word is compared: its stem, or that of its synonyms."""
    bare = stem(word)
    return _SYNONYM.get(bare, bare)


def _rivals(sets: list[str]) -> dict[str, frozenset[str]]:
    """For each member of a set, the others."""
    table: dict[str, set[str]] = {}
    for members in map(str.split, sets):
        for one in members:
            table.setdefault(one, set()).update(other for other in members if other != one)
    return {word: frozenset(others) for word, others in table.items()}


def _each(read: Callable[[str], str], table: str) -> list[str]:
    return [" ".join(map(read, members.split())) for members in groups(table)]


_EXCLUDED = _rivals([*_each(form, OPPOSITES), *_each(form, EXCLUSIVE)])
_CONFUSED = _rivals(_each(stem, CONFUSED))
_NONE: frozenset[str] = frozenset()


def excluded(one: str) -> frozenset[str]:
    """The forms that exclude this one."""
    return _EXCLUDED.get(one, _NONE)


def exclude(one: str, other: str) -> bool:
    """Whether two forms exclude each other, by the tables or by a prefix like un-."""
    if other in excluded(one):
        return True
    if one[-3:] != other[-3:] and one[:3] != other[:3]:  # neither a prefix nor affixes part them
        return False
    return prefixed(one, other) or prefixed(other, one) or countered(one, other)


def prefixed(long: str, short: str) -> bool:
    """Whether one form is the other with a negating prefix."""
    gap = len(long) - len(short)
    return 2 <= gap <= 4 and len(short) >= 3 and long.endswith(short) and long[:gap] in _PREFIXES


_PARTNERS = _rivals(groups(COUNTERPARTS))
_LEAST_BASE = 3


def countered(one: str, other: str) -> bool:
    """Whether two words are one base with affixes that exclude each other: hypo-, hyper-; -ful."""
    if any(
        one.endswith(end) and other.endswith(counter) and one[: -len(end)] == other[: -len(counter)]
        for end, counter in _COUNTER_ENDS
    ):
        return True
    return any(
        other == partner + one[length:]
        for length in range(2, 6)
        if len(one) - length >= _LEAST_BASE
        for partner in _PARTNERS.get(one[:length], _NONE)
    )


_COUNTER_ENDS = [("less", "ful"), ("ful", "less"), ("er", "ee"), ("ee", "er"), ("or", "ee"),
                 ("ee", "or")]  # fmt: skip


def kin(one: str, other: str) -> bool:
    """Whether two different forms are one word: a slip of the keys, or a derived form."""
    if exclude(one, other):
        return False
    short, long = sorted((one, other), key=len)
    if len(short) < 4 or not one.isalpha() or not other.isalpha():
        return False
    if other in _CONFUSED.get(one, _NONE):
        return False
    return derived(short, long) or misspelt(short, long)


def derived(short: str, long: str) -> bool:
    """Whether the long form is the short one, but for its last letter, with a common ending."""
    shared = 0
    for left, right in zip(short, long, strict=False):
        if left != right:
            break
        shared += 1
    if shared < 5 or shared < len(short) - 1 or shared * 10 < len(long) * 6:
        return False
    return long[shared:] in _ENDINGS


_ENDINGS = listed("""
    s es d ed ded ted r er ers or ors ing al ally ial ical ically ly y ies ied ily ary ery ory
    ment ments ness ance ence ant ants ent ents ation ations ition ion ions sion tion ive ative
    able ible ability ibility ic ics ist ists ism ity ty age ages ure ship hood dom ify ise ize
    ised ized ising izing isation ization e ate ated ating ator en ened ening th ful
    ious ous eous ed ling let t n an ancy ency cy ie
""")


def misspelt(short: str, long: str) -> bool:
    """Whether few slips (a letter lost, doubled, swapped or mistaken) part the two."""
    if len(long) < 5 or len(long) - len(short) > 2 or short[0] != long[0]:
        return False
    if _of_series(short, long):
        return False
    return _within(short, long, 2 if len(short) >= 8 else 1)


_SERIES = listed("at it id an en in yn on os as ol yl olon")
_SERIES_LENGTHS = sorted({len(end) for end in _SERIES})


def _of_series(one: str, other: str) -> bool:
    """Whether the endings are those of substances of one family: nitrate and nitrite."""
    one, other = one.removesuffix("e"), other.removesuffix("e")
    for length in _SERIES_LENGTHS:
        base, end = one[:-length], one[-length:]
        if end in _SERIES and other.startswith(base):
            counter = other[len(base) :]
            if counter in _SERIES and counter != end:
                return True
    return False


def _within(one: str, other: str, slips: int) -> bool:
    start = 0
    while start < len(one) and start < len(other) and one[start] == other[start]:
        start += 1
    one, other = one[start:], other[start:]
    if not one and not other:
        return True
    if slips == 0:
        return False
    if one[:2] == other[1::-1] and len(one) > 1 and _within(one[2:], other[2:], slips - 1):
        return True
    if one and other and _mistaken(one[0], other[0]) and _within(one[1:], other[1:], slips - 1):
        return True
    return _within(one[1:], other, slips - 1) or _within(one, other[1:], slips - 1)


_KEYS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_MISTAKEN = {pair for row in _KEYS for pair in pairwise(row)} | {
    ("c", "s"), ("c", "k"), ("s", "z"),
}  # fmt: skip


def _mistaken(one: str, other: str) -> bool:
    """Whether one letter is easily typed for the other."""
    pair = (one, other)
    return {one, other} <= _VOWELS or pair in _MISTAKEN or pair[::-1] in _MISTAKEN

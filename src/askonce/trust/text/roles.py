"""Who does what to whom: evidence that the same words stand in other roles."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from askonce.trust.text.comparison import SOFT_FORMS, Comparison
from askonce.trust.text.grammar import PREPOSITIONS
from askonce.trust.text.words import form

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.trust.text.grammar import Grammar

    Forms = tuple[str, ...]
    Frame = tuple[Forms, Forms]


def exchanged(pair: Comparison) -> bool:
    """Whether words that both texts share have changed places in a way that matters."""
    if pair.akin < 0.75 or pair.alike < 0.6:
        return False
    shared, left, right = framed(pair.left.forms, pair.right.forms)
    middles = _middles(left, right)
    if middles:
        return not any(_level(middle, shared) for middle in middles)
    return _roles_traded(pair) or _owners_traded(pair) or _turned(pair, left, right)


def coordinated(pair: Comparison) -> bool:
    """Whether the texts differ in the order around an "and" or "or" alone."""
    shared, left, right = framed(pair.left.forms, pair.right.forms)
    return any(_level(middle, shared) for middle in _middles(left, right))


def framed(left: Forms, right: Forms) -> tuple[Frame, Forms, Forms]:
    """What both texts begin and end with, and what remains of each."""
    start, most = 0, min(len(left), len(right))
    while start < most and left[start] == right[start]:
        start += 1
    end = 0
    while end < most - start and left[-1 - end] == right[-1 - end]:
        end += 1
    cut = len(left) - end
    return (left[:start], left[cut:]), left[start:cut], right[start : len(right) - end]


_LONGEST_PARTY = 8
_CASE = {"me": "i", "us": "we", "him": "he", "them": "they"}


def _middles(left: Forms, right: Forms) -> list[Forms]:
    """What stands between two parties that have changed sides: each m of `A m B` and `B m A`."""
    size = len(left)
    if size != len(right) or size < 2:
        return []
    left = tuple([_CASE.get(form, form) for form in left])
    right = tuple([_CASE.get(form, form) for form in right])
    reach = range(1, min(_LONGEST_PARTY, size) + 1)
    firsts = [n for n in reach if left[n - 1] == right[-1] and left[:n] == right[size - n :]]
    if not firsts:
        return []
    lasts = [n for n in reach if right[n - 1] == left[-1] and right[:n] == left[size - n :]]
    return [
        left[a : size - b]
        for a in firsts
        for b in lasts
        if a + b < size and left[a : size - b] == right[b : size - a]
    ]


def _level(middle: Forms, shared: Frame) -> bool:
    """Whether what stands between two parties puts neither first: "real gas and ideal gas"."""
    place = next((n for n, word in enumerate(middle) if word in _LEVEL), None)
    if place is None:
        return False
    before, after = middle[:place], middle[place + 1 :]
    head, tail = shared
    return before == tail[:place] and after == head[len(head) - len(after) :]


_COUNTER_ROLES = (
    {"to", "from"},
    {"before", "after"},
    {"over", "under"},
    {"with", "without"},
)


def _roles_traded(pair: Comparison) -> bool:
    """Whether two words traded prepositions, or one word took the opposite one."""
    left, right = pair.left.grammar, pair.right.grammar
    took: dict[str, int] = {}
    governed = left.roles.keys() | right.roles.keys()
    for word in governed & pair.left.bag.keys() & pair.right.bag.keys():
        before, after = left.roles.get(word, ""), right.roles.get(word, "")
        if before == after:
            continue
        if {before, after} in _COUNTER_ROLES:
            return True
        for role, step in ((before, 1), (after, 2)):
            if role and not (role == "by" and left.passive != right.passive):
                took[role] = took.get(role, 0) | step
    return 3 in took.values()


def _owners_traded(pair: Comparison) -> bool:
    """Whether a word that belongs in one text, as in "mother of Ann", owns in the other."""
    if pair.akin < 1:
        return False
    left, right = pair.left.grammar, pair.right.grammar
    if left.whose != right.whose:
        return _owned(left) | _owned(right) != frozenset()
    return _freed(left, right) or _freed(right, left)


def _freed(one: Grammar, other: Grammar) -> bool:
    """Whether a word leaves a preposition that stands without it in the other text."""
    for word, role in one.roles.items():
        governing = "of" if role == "'s" else role
        free = governing in other.stranded - one.stranded
        if free and other.roles.get(word, "") not in {governing, "'s"}:
            return True
    return False


def _owned(grammar: Grammar) -> frozenset[str]:
    return frozenset(word for word, role in grammar.roles.items() if role in {"of", "'s"})


def _turned(pair: Comparison, rest: Forms, other_rest: Forms) -> bool:
    left, right = pair.left.grammar, pair.right.grammar
    asked = left.aided != right.aided and left.asks & right.asks
    if asked and pair.akin == 1 and len(rest) + len(other_rest) <= _LOCAL:
        return _objects_differ(rest, other_rest)
    turned = _has_turn(_order(rest, other_rest))
    if left.passive == right.passive:
        # What both begin and end with keeps its order, unless an "and" reaches into it.
        level = not (_LEVEL.isdisjoint(pair.left.forms) and _LEVEL.isdisjoint(pair.right.forms))
        return turned or (level and _has_turn(_order(pair.left.forms, pair.right.forms)))
    order = _order(pair.left.forms, pair.right.forms)
    return len(order) >= _LEAST_ORDER and not turned and order == sorted(order)


_LOCAL = 12
"""Words in both remainders, up to which two questions differ in one place."""
_FRAME = frozenset(map(form, ("do", "be", "have", "will", "who", "what", "which", "that")))


def _objects_differ(left: Forms, right: Forms) -> bool:
    """Whether the first of the words that both remainders hold is another one in each."""
    shared = (set(left) & set(right)) - _FRAME - PREPOSITIONS
    firsts = [next((word for word in rest if word in shared), "") for rest in (left, right)]
    return firsts[0] != firsts[1]


_LEVEL = frozenset({"and", "or", "nor", "vs", "versus"})
"""Between two words, these put neither first."""


def _order(left: Forms, right: Forms) -> list[int]:
    """Where the left content words stand on the right; each occurs once in both."""
    if min(len(left), len(right)) < _LEAST_ORDER:
        return []
    theirs = _once(right)
    return [theirs[word] for word in _once(left) if word in theirs]


@lru_cache(maxsize=256)
def _once(forms: Forms) -> dict[str, int]:
    """The place of each content form that occurs once, in order."""
    places: dict[str, int] = {}
    for place, word in enumerate(_levelled(forms)):
        places[word] = -1 if word in places else place
    return {word: place for word, place in places.items() if place >= 0 and word not in SOFT_FORMS}


_LEAST_ORDER = 3
"""Fewer words have no order that could turn."""


def _levelled(forms: Forms) -> Sequence[str]:
    """The forms with both sides of each "and" and "or" in alphabetical order."""
    if _LEVEL.isdisjoint(forms):
        return forms
    level = list(forms)
    for place in range(1, len(level) - 1):
        if level[place] in _LEVEL:
            level[place - 1], level[place + 1] = sorted((level[place - 1], level[place + 1]))
    return level


def _has_turn(order: list[int]) -> bool:
    """Whether three places fall in a row: two words changed sides of a third that stayed.

    A clause moved to the front makes no such fall, nor do "A or B" and "B or A".
    """
    if len(order) < _LEAST_ORDER or order == sorted(order):
        return False
    lowest_after = [0] * len(order)
    lowest = len(order) + max(order, default=0)
    for index in range(len(order) - 1, -1, -1):
        lowest_after[index] = lowest
        lowest = min(lowest, order[index])
    highest = -1
    for index, place in enumerate(order):
        if highest > place > lowest_after[index]:
            return True
        highest = max(highest, place)
    return False

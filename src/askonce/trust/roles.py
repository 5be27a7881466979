"""Who does what to whom: evidence that the same words stand in other roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.trust.comparison import SOFT_FORMS, Comparison

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.trust.reading import Reading


def exchanged(pair: Comparison) -> bool:
    """Whether words that both texts share have changed places in a way that matters."""
    if pair.akin < 0.75 or pair.alike < 0.6:
        return False
    return _roles_traded(pair) or _turned(pair) or _names_swapped(pair)


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
    for word in pair.left.bag.keys() & pair.right.bag.keys():
        before, after = left.roles.get(word, ""), right.roles.get(word, "")
        if before == after:
            continue
        if {before, after} in _COUNTER_ROLES:
            return True
        for role, step in ((before, 1), (after, 2)):
            if role and not (role == "by" and left.passive != right.passive):
                took[role] = took.get(role, 0) | step
    return 3 in took.values()


def _turned(pair: Comparison) -> bool:
    order = _order(pair.left, pair.right)
    if len(order) < 2:
        return False
    left, right = pair.left.grammar, pair.right.grammar
    turned = _has_turn(order)
    if left.passive != right.passive:
        return len(order) >= 3 and not turned and pair.alike >= 0.6 and order == sorted(order)
    if left.aided != right.aided and {"who", "what"} & left.asks & right.asks:
        return order[0] != min(order)
    return turned


def _names_swapped(pair: Comparison) -> bool:
    """Whether the same words name two parties in the other order, with a relation in between."""
    if pair.only_left or pair.only_right or pair.left.grammar.passive or pair.right.grammar.passive:
        return False
    order = _order(pair.left, pair.right)
    names = pair.left.names | pair.right.names
    if len(order) != 2 or order == sorted(order) or len(names) != 2:
        return False
    return _related(pair.left.forms, names) and _related(pair.right.forms, names)


def _related(forms: tuple[str, ...], names: frozenset[str]) -> bool:
    places = [place for place, word in enumerate(forms) if word in names]
    return bool(set(forms[places[0] + 1 : places[-1]]) - _LEVEL)


_LEVEL = frozenset({"and", "or", "vs", "versus"})
"""Between two words, these put neither first."""


def _order(left: Reading, right: Reading) -> list[int]:
    """Where the left text's content words stand in the right text; each occurs once in both."""
    places = {word: place for place, word in enumerate(_levelled(right.forms))}
    return [
        places[word]
        for word in _levelled(left.forms)
        if left.bag[word] == 1 and right.bag.get(word) == 1 and word not in SOFT_FORMS
    ]


def _levelled(forms: tuple[str, ...]) -> list[str]:
    """The forms with both sides of each "and" and "or" in alphabetical order."""
    level = list(forms)
    for place in range(1, len(level) - 1):
        if level[place] in _LEVEL:
            level[place - 1], level[place + 1] = sorted((level[place - 1], level[place + 1]))
    return level


def _has_turn(order: Sequence[int]) -> bool:
    """Whether three places fall in a row: two words changed sides of a third that stayed.

    A clause moved to the front makes no such fall, nor do "A or B" and "B or A".
    """
    lowest_after = [0] * len(order)
    lowest = len(order) + max(order)
    for index in range(len(order) - 1, -1, -1):
        lowest_after[index] = lowest
        lowest = min(lowest, order[index])
    highest = -1
    for index, place in enumerate(order):
        if highest > place > lowest_after[index]:
            return True
        highest = max(highest, place)
    return False

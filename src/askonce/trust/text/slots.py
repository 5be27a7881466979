"""Numbers and what they count: evidence that the same numbers stand in other places."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from askonce.trust.text.comparison import SOFT_FORMS, Comparison
from askonce.trust.text.roles import coordinated

if TYPE_CHECKING:
    from collections.abc import Iterable

_FARTHEST = 8
_PARTING = frozenset({"and", "or", "plus", "but"})


def misplaced(pair: Comparison) -> bool:
    """Whether both texts hold the same numbers, but not for the same things."""
    if not pair.left.numbers:
        return False
    left, right = _sequence(pair.left.forms), _sequence(pair.right.forms)
    if sorted(left) != sorted(right):
        return False
    if left == right:
        return False
    held = _holdings(pair.left.forms)
    if max(Counter(words for _, words in held).values()) > 1:
        return True
    return not coordinated(pair) and Counter(held) != Counter(_holdings(pair.right.forms))


def _sequence(forms: Iterable[str]) -> list[str]:
    return [form for form in forms if form.startswith("#")]


def _holdings(forms: tuple[str, ...]) -> list[tuple[str, frozenset[str]]]:
    """Each number with the words that follow it, or else those before it."""
    places = [place for place, form in enumerate(forms) if form.startswith("#")]
    return [
        (
            forms[place],
            frozenset(_reach(forms, place + 1, 1) or _reach(forms, place - 1, -1)),
        )
        for place in places
    ]


def _reach(forms: tuple[str, ...], start: int, step: int) -> list[str]:
    """The content words up to the next number or conjunction, of a few words."""
    found: list[str] = []
    end = max(start + step * _FARTHEST, -1)
    for form in (forms[place] for place in range(start, min(end, len(forms)), step)):
        if form.startswith("#") or form in _PARTING:
            break
        if form not in SOFT_FORMS:
            found.append(form)
    return found

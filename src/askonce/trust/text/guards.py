"""Vetoes: lexical evidence that two questions want different answers.

A guard speaks up for evidence, never for mere difference: other words for the same thing pass.
Guards that judge single words bind near-copies only, where one word is what the texts differ in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.trust.text.comparison import Comparison, compare
from askonce.trust.text.lexicon import listed
from askonce.trust.text.reading import analyse, equal
from askonce.trust.text.roles import exchanged
from askonce.trust.text.slots import misplaced
from askonce.trust.text.surface import recased, requoted, rewritten
from askonce.trust.text.words import exclude, excluded, form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NEAR = 0.65
"""From this share of common forms (Dice) on, two texts are near-copies."""

CONTAINED = 0.5
"""The same where one text holds all of the other, or one word stands for one other."""

REWORDED = 0.8
"""The same where both texts have words of their own: mostly other words for the same."""


def _forms(words: str) -> frozenset[str]:
    return frozenset(map(form, words.split()))


_UNITS = _forms("""
    usd eur gbp inr jpy cny aud cad chf btc eth % kg g lb oz tonne stone km mi metre meter
    cm mm ft inch yard kb mb gb tb pb ml litre gallon pint celsius fahrenheit kelvin
""")
_DATES = _forms("""
    monday tuesday wednesday thursday friday saturday sunday weekday weekend january
    february april may june july august september october november december spring summer
    autumn winter today yesterday tomorrow tonight sec min hour day week month quarter
    year decade century morning afternoon evening night noon midnight breakfast lunch
    dinner
""")
_QUANTIFIERS = listed("all only every each both either none some any most least first last")
_RIVALS = (frozenset({"and", "or"}), frozenset({"as", "than"}))
"""Small words of which each text has another."""
_PLAIN_ANSWERS = listed("who when where why count amount duration")
"""Answers of different kinds, whatever else the question says."""
_RELATIONS = listed("before after over under until except atleast atmost")


def veto(question: str, cached: str) -> str | None:
    """The name of the first guard that holds evidence against serving, or None."""
    return next(_evidence(question, cached), None)


def verdicts(question: str, cached: str) -> list[str]:
    """The names of all guards that hold evidence against serving."""
    return list(_evidence(question, cached))


def _evidence(question: str, cached: str) -> Iterator[str]:
    left, right = analyse(question), analyse(cached)
    asked = _WRITTEN if equal(left, right) else GUARDS
    pair = compare(left, right)
    return (name for name in asked if GUARDS[name](pair))


def _literal(pair: Comparison) -> bool:
    left, right = pair.left.surface, pair.right.surface
    return rewritten(left, right) or (pair.alike >= CONTAINED and requoted(left, right))


def _case(pair: Comparison) -> bool:
    return recased(pair.left.surface, pair.right.surface)


def _numbers(pair: Comparison) -> bool:
    left = pair.only_left & pair.left.numbers
    right = pair.only_right & pair.right.numbers
    if (left and right) or ((left or right) and pair.alike >= 0.5):
        return True
    return misplaced(pair)


def _clash(pair: Comparison, of: frozenset[str]) -> bool:
    return any(of & excluded(word) & pair.only_right for word in pair.only_left & of)


def _units(pair: Comparison) -> bool:
    return _clash(pair, _UNITS)


def _dates(pair: Comparison) -> bool:
    return _clash(pair, _DATES)


def _code(pair: Comparison) -> bool:
    if pair.left.marks != pair.right.marks and sorted(pair.left.marks) == sorted(pair.right.marks):
        return True
    left = pair.only_left & pair.left.codes
    right = pair.only_right & pair.right.codes
    return bool(left and right) or (bool(left or right) and pair.alike >= 0.5)


def _names(pair: Comparison) -> bool:
    left = pair.only_left & pair.left.names
    right = pair.only_right & pair.right.names
    return bool(left and right) or (bool(left or right) and pair.alike >= NEAR)


def _framed_alike(pair: Comparison) -> bool:
    """Whether the texts say the same but for their small words."""
    return pair.alike >= NEAR or (pair.akin == 1 and pair.alike >= CONTAINED)


def _negation(pair: Comparison) -> bool:
    odd = (pair.left.negations - pair.right.negations) % 2
    return bool(odd) and (pair.alike >= 0.5 or pair.akin >= 0.6)


def _opposites(pair: Comparison) -> bool:
    if pair.alike < 0.3 and pair.akin < 0.3:
        return False
    left, right = pair.only_left, pair.only_right
    if any(not excluded(word).isdisjoint(right) for word in left):
        return True
    if len(left) * len(right) > 400:
        return False
    ends = {end for word in right for end in (word[:3], word[-3:])}
    like = [word for word in left if word[:3] in ends or word[-3:] in ends]
    return any(exclude(one, other) for one in like for other in right)


def _scope(pair: Comparison) -> bool:
    left, right = pair.left.said, pair.right.said
    differ = left ^ right
    rivals = any(two <= differ and len(two & left) == 1 for two in _RIVALS)
    if rivals and pair.alike >= CONTAINED:
        return True
    if not _framed_alike(pair):
        return False
    quantified = left & _QUANTIFIERS - right and right & _QUANTIFIERS - left
    limited = pair.akin == 1 and _limited(pair.left.words) != _limited(pair.right.words)
    return bool(quantified or differ & _RELATIONS or "only" in differ or limited)


def _limited(words: tuple[str, ...]) -> str:
    """The word after the first "only"."""
    return words[(*words, "only").index("only") + 1 :][:1][0] if "only" in words[:-1] else ""


def _person(pair: Comparison) -> bool:
    if not _framed_alike(pair):
        return False
    left, right = pair.left.grammar, pair.right.grammar
    if left.subjects & right.objects and left.objects & right.subjects:
        return True
    crossed = left.persons == right.owners and left.owners == right.persons
    if crossed and left.persons and left.owners and left.persons != left.owners:
        return True
    if _each_more(left.pointers, right.pointers):
        return True
    third = {"m", "f"}
    if (left.persons | left.owners) & third != (right.persons | right.owners) & third:
        return True
    if left.owners and right.owners and not left.owners & right.owners:
        return left.persons == right.persons or "3" in left.owners | right.owners
    return False


def _each_more(one: dict[str, int], other: dict[str, int]) -> bool:
    """Whether each of two counts has more of something."""
    if one == other or not one or not other:
        return False
    return any(count > other.get(key, 0) for key, count in one.items()) and any(
        count > one.get(key, 0) for key, count in other.items()
    )


def _question(pair: Comparison) -> bool:
    left, right = pair.left.grammar.asks, pair.right.grammar.asks
    if len(left) == len(right) == 1 and left != right and left | right <= _PLAIN_ANSWERS:
        return pair.akin >= NEAR
    if not _framed_alike(pair):
        return False
    if not left or not right:
        return bool((left | right) - {"how", "what"})
    return not left & right and "what" not in left | right


def _mood(pair: Comparison) -> bool:
    if not _framed_alike(pair):
        return False
    left, right = pair.left.grammar, pair.right.grammar
    if _each_more(left.forces, right.forces):
        return True
    return bool(left.tenses and right.tenses and not left.tenses & right.tenses)


def _content(pair: Comparison) -> bool:
    left, right = pair.hard_left, pair.hard_right
    if not pair.left.forms or not pair.right.forms:
        return True
    if not left and not right:
        return False
    if not (pair.left.legible and pair.right.legible):
        return True
    if not (pair.only_left and pair.only_right):
        return pair.alike >= CONTAINED
    if len(pair.only_left) == len(pair.only_right) == 1:
        return pair.alike >= CONTAINED
    if len(left) == len(right) == 1 and pair.akin >= REWORDED:
        return True
    return pair.alike >= (REWORDED if left and right else NEAR)


GUARDS: dict[str, Callable[[Comparison], bool]] = {
    "literal": _literal,
    "case": _case,
    "numbers": _numbers,
    "units": _units,
    "dates": _dates,
    "code": _code,
    "names": _names,
    "negation": _negation,
    "opposites": _opposites,
    "order": exchanged,
    "scope": _scope,
    "person": _person,
    "question": _question,
    "mood": _mood,
    "content": _content,
}
"""Name and evidence of each guard, in the order they are asked."""

_WRITTEN = ("literal", "case")
"""Guards that also look at texts that read the same."""

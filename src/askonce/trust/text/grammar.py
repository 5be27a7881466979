"""Who asks what about whom: question word, mood, tense, persons, and the role of each word."""

from __future__ import annotations

from collections import Counter

import msgspec

from askonce.trust.text.lexicon import FILLERS, SOFT, listed
from askonce.trust.text.words import form

_TENSE = {
    **dict.fromkeys(("was", "were", "did", "had", "usedto"), "past"),
    **dict.fromkeys(("is", "are", "am", "do", "does"), "present"),
    **dict.fromkeys(("will", "shall", "going"), "future"),
}
_ASKING = frozenset({"who", "whom", "whose", "when", "where", "why", "how", "what", "which"})
_POINTER = {"it": "it", "they": "them", "them": "them"}
_MODAL = {
    "can": "may", "could": "may", "may": "may", "possible": "may",
    "must": "must", "required": "must", "mandatory": "must",
    "should": "should", "ought": "should",
}  # fmt: skip
_FORCE = {**_MODAL, "shall": "shall", "will": "will", "might": "may"}
_PERSON = {
    "i": "1", "me": "1", "we": "1", "us": "1", "you": "2",
    "he": "m", "him": "m", "she": "f", "her": "f", "they": "3", "them": "3",
}  # fmt: skip
_SUBJECT = {"i": "1", "we": "1", "he": "m", "she": "f", "they": "3"}
_OBJECT = {"me": "1", "us": "1", "him": "m", "them": "3"}
_OWNER = {
    "my": "1", "our": "1", "mine": "1", "your": "2", "his": "m", "her": "f", "their": "3",
}  # fmt: skip
_ROLE = {
    "to": "to", "into": "to", "onto": "to", "for": "for", "from": "from", "leaving": "from",
    "by": "by", "than": "than", "before": "before", "after": "after", "against": "against",
    "over": "over", "under": "under", "in": "in", "inside": "in", "of": "of", "on": "on",
    "with": "with", "without": "without", "via": "via", "not": "not",
}  # fmt: skip
PREPOSITIONS = frozenset(map(form, _ROLE))
_GOVERNING = frozenset({"of", "than", "by", "for", "from", "with", "against", "to"})
_GAP = frozenset({"", "who", "whom", "what", "which"})
_ASK_PARTY = frozenset({"who", "whom", "what", "which"})
_BE = frozenset({"is", "are", "am", "was", "were", "be", "been", "being", "get", "got"})
_TIME = frozenset(map(form, ("time", "date", "day", "year", "month")))
_PLACE = frozenset(map(form, ("place", "city", "country")))


class Grammar(msgspec.Struct, frozen=True, gc=False):
    """The frame of a text."""

    asks: frozenset[str]
    """Question words, by what kind of answer they want."""
    tenses: frozenset[str]
    moods: frozenset[str]
    forces: dict[str, int]
    """How often each kind of modal verb stands in the text."""
    persons: frozenset[str]
    owners: frozenset[str]
    subjects: frozenset[str]
    objects: frozenset[str]
    roles: dict[str, str]
    """For each form, the preposition (or possessive) that governs it, if any."""
    passive: bool
    aided: bool
    """A question word with do-support: the question is about the object."""
    whose: bool
    stranded: frozenset[str]
    """Prepositions that govern nothing, as in "who is she the mother of"."""
    pointers: dict[str, int]
    """How often things are spoken of as one, and as several."""


def parse(words: tuple[str, ...], forms: tuple[str, ...], said: frozenset[str]) -> Grammar:
    """Read the frame off the words; said: the different ones."""
    told = [word for word in said if word in _TELLING]
    return Grammar(
        asks=_NONE if said.isdisjoint(_ASKING) else _asks(words),
        tenses=_kinds(_TENSE, told),
        moods=_kinds(_MODAL, told),
        forces=_counts(_FORCE, words, told),
        persons=_kinds(_PERSON, told),
        owners=_kinds(_OWNER, told),
        subjects=_kinds(_SUBJECT, told),
        objects=_kinds(_OBJECT, told),
        roles=_roles(words, forms),
        passive="by" in said and _passive(words),
        aided=not said.isdisjoint(_ASK_PARTY) and _aided(words),
        whose="whose" in said,
        stranded=_NONE if said.isdisjoint(_GOVERNING) else _stranded(words),
        pointers=_counts(_POINTER, words, told),
    )


_TELLING: frozenset[str] = frozenset().union(_TENSE, _FORCE, _PERSON, _OWNER, _POINTER)
_NONE: frozenset[str] = frozenset()


def _kinds(table: dict[str, str], told: list[str]) -> frozenset[str]:
    return frozenset([table[word] for word in told if word in table]) if told else _NONE


def _counts(table: dict[str, str], words: tuple[str, ...], told: list[str]) -> dict[str, int]:
    if not [word for word in told if word in table]:
        return {}
    return dict(Counter([table[word] for word in words if word in table]))


def _aided(words: tuple[str, ...]) -> bool:
    """Whether a form of "do" follows the question word, or the noun that it asks for."""
    place = next((n for n, word in enumerate(words) if word in _ASK_PARTY), len(words))
    return any(form(word) == "do" for word in words[place + 1 : place + 4])


def _stranded(words: tuple[str, ...]) -> frozenset[str]:
    return frozenset(
        word
        for word, following in zip(words, (*words[1:], ""), strict=False)
        if word in _GOVERNING and following in _GAP
    )


def _asks(words: tuple[str, ...]) -> frozenset[str]:
    found = set()
    for position, word in enumerate(words):
        if word in _ASKING:
            after = words[position + 1 : position + 3]
            found.add(_asked(word, form(after[0]) if after else "", after))
    return frozenset(found)


def _asked(word: str, after: str, following: tuple[str, ...]) -> str:
    if word == "how":
        return {"many": "count", "much": "amount", "long": "duration"}.get(
            after, "how" if after in SOFT else "how-" + after
        )
    if word in {"what", "which"}:
        if after in _TIME:
            return "when"
        if after in _PLACE:
            return "where"
        return "amount" if "price" in map(form, following) else "what"
    return "who" if word in {"whom", "whose"} else word


def _passive(words: tuple[str, ...]) -> bool:
    place = words.index("by")
    be = any(word in _BE for word in words[:place])
    before = words[place - 1] if place else ""
    return be and (form(before) != before or before.endswith(("ed", "en")) or before in _SAME_PAST)


_SAME_PAST = listed("hurt hit cut put set beat read shut let cost burst cast")


def _roles(words: tuple[str, ...], forms: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    role, reach = "", 0
    for position, word in enumerate(words):
        if word == "'s":
            found[forms[position - 1]] = word
        elif word in _ROLE:
            role, reach = _ROLE[word], 2
        elif word in FILLERS:
            continue
        elif word in SOFT:
            role = "" if word not in _OWNER else role
        else:
            if role and reach:
                found.setdefault(forms[position], role)
            reach -= 1
    return found

"""Pairs made from any texts by rule: changes that keep the answer, and changes that turn it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from askonce.lab.sets import Pair
from askonce.trust.text.lexicon import SOFT
from askonce.trust.text.opposites import OPPOSITES
from askonce.trust.text.synonyms import SYNONYMS
from askonce.trust.text.words import groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

_OPENINGS = (
    "please tell me, ", "hi, ", "hello, ", "quick question: ", "i would like to know: ",
    "can you tell me, ", "sorry, ", "so, ", "excuse me, ",
)  # fmt: skip
_SHORT = {
    "what is": "what's", "where is": "where's", "i am": "i'm", "i have": "i've",
    "do not": "don't", "is not": "isn't", "can not": "can't", "it is": "it's",
}  # fmt: skip
_MODIFIERS = (
    "second", "old", "free", "joint", "temporary", "annual", "foreign", "local", "empty", "digital",
    "private", "former", "online", "cheap", "small", "married", "black", "late", "spare", "junior",
)  # fmt: skip
_NAMES = (
    "Anna", "Boris", "Clara", "Deepak", "Elena", "Felix", "Grace", "Hassan", "Ines", "Jonas",
    "Canada", "Japan", "Kenya", "Norway", "Peru", "Oslo", "Lima", "Cairo", "Delhi", "Paris",
)  # fmt: skip
_FRAMES = (
    "is {} older than {}?", "did {} pay {}?", "who wins if {} plays against {}?",
    "how do i get from {} to {}?", "does {} like {}?", "is {} bigger than {}?",
    "how much did {} lend to {}?", "can {} replace {}?", "is {} the boss of {}?",
)  # fmt: skip
_AUXILIARY = re.compile(
    r"\b(can|could|is|are|does|do|did|will|should|was|were|has|have)\b", re.IGNORECASE
)
_ASKED = {"what": "when", "when": "where", "where": "who", "who": "what", "how": "why"}
_OWNED = {"my": "your", "your": "his", "his": "her", "her": "their", "i": "he", "we": "they"}


def made(texts: Sequence[str], random: Random, count: int) -> list[Pair]:
    """Up to `count` pairs of each kind, drawn from the texts."""
    pairs = [pair for kind in _KINDS for pair in _of_kind(kind, texts, random, count)]
    return pairs + [_exchanged(random) for _ in range(count)]


def _exchanged(random: Random) -> Pair:
    one, other = random.sample(_NAMES, 2)
    frame = random.choice(_FRAMES)
    a, b = frame.format(one, other), frame.format(other, one)
    return Pair(a, b, same=False, category="made_exchange")


def _of_kind(kind: str, texts: Sequence[str], random: Random, count: int) -> Iterator[Pair]:
    same, change = _KINDS[kind]
    found = 0
    for text in random.sample(texts, len(texts)):
        changed = change(text, random)
        if changed is not None and changed != text:
            one, other = (changed, text) if random.random() < 0.5 else (text, changed)
            yield Pair(one, other, same=same, category=f"made_{kind}")
            found += 1
            if found == count:
                return


def _swap(table: dict[str, list[str]], text: str, random: Random) -> str | None:
    words = text.split()
    places = [place for place, word in enumerate(words) if word.lower() in table]
    if not places:
        return None
    place = random.choice(places)
    words[place] = random.choice(table[words[place].lower()])
    return " ".join(words)


def _table(source: str) -> dict[str, list[str]]:
    table: dict[str, list[str]] = {}
    for group in groups(source):
        words = [word for word in group.split() if word.isalpha()]
        for word in words:
            table.setdefault(word, []).extend(other for other in words if other != word)
    return {word: others for word, others in table.items() if others}


def _contents(text: str) -> list[str]:
    return [word for word in re.findall(r"[a-z]{4,}", text.lower()) if word not in SOFT]


def _opened(text: str, random: Random) -> str:
    return random.choice(_OPENINGS) + text[0].lower() + text[1:]


def _plain(text: str, random: Random) -> str:
    return text.lower().rstrip("?.! ") + random.choice(("", " ?", "??", "."))


def _shortened(text: str, random: Random) -> str | None:
    found = [long for long in _SHORT if re.search(rf"\b{long}\b", text, re.IGNORECASE)]
    if not found:
        return None
    long = random.choice(found)
    return re.sub(rf"\b{long}\b", _SHORT[long], text, count=1, flags=re.IGNORECASE)


def _slipped(text: str, random: Random) -> str | None:
    words = [word for word in _contents(text) if len(word) > 5]
    if not words:
        return None
    word = random.choice(words)
    at = random.randrange(1, len(word) - 2)
    slips = (word[:at] + word[at + 1] + word[at] + word[at + 2 :], word[:at] + word[at + 1 :])
    return re.sub(word, random.choice(slips), text, count=1, flags=re.IGNORECASE)


def _bare(text: str, _: Random) -> str:
    return re.sub(r"\b(the|a|an|please|just) ", "", text, flags=re.IGNORECASE)


def _renumbered(text: str, random: Random) -> str | None:
    found = re.findall(r"\d+", text)
    if not found:
        return None
    old = random.choice(found)
    return text.replace(old, str(int(old[:9]) + random.choice((1, 2, 5, 10, 100))), 1)


def _negated(text: str, random: Random) -> str | None:
    found = list(_AUXILIARY.finditer(text))
    if not found or re.search(r"\b(not|never|no)\b|n't\b", text, re.IGNORECASE):
        return None
    match = random.choice(found)
    after = re.match(r" (i|you|we|it|the \w+|my \w+)\b", text[match.end() :], re.IGNORECASE)
    end = match.end() + (after.end() if after else 0)
    return text[:end] + " not" + text[end:]


def _modified(text: str, random: Random) -> str | None:
    found = list(re.finditer(r"\b(the|a|an|my|your) (?=[a-z]{4,})", text, re.IGNORECASE))
    if not found:
        return None
    end = random.choice(found).end()
    return text[:end] + random.choice(_MODIFIERS) + " " + text[end:]


def _replaced(text: str, random: Random) -> str | None:
    words = _contents(text)
    if len(words) < 2:
        return None
    return re.sub(
        rf"\b{random.choice(words)}\b",
        random.choice(_MODIFIERS + _NAMES),
        text,
        count=1,
        flags=re.IGNORECASE,
    )


_SAME_WORDS = _table(SYNONYMS)
_OTHER_WORDS = _table(OPPOSITES)
_ASKED_WORDS = {word: [other] for word, other in _ASKED.items()}
_OWNED_WORDS = {word: [other] for word, other in _OWNED.items()}

_KINDS: dict[str, tuple[bool, Callable[[str, Random], str | None]]] = {
    "opened": (True, _opened),
    "plain": (True, _plain),
    "shortened": (True, _shortened),
    "slipped": (True, _slipped),
    "bare": (True, _bare),
    "synonym": (True, lambda text, random: _swap(_SAME_WORDS, text, random)),
    "number": (False, _renumbered),
    "negation": (False, _negated),
    "opposite": (False, lambda text, random: _swap(_OTHER_WORDS, text, random)),
    "modifier": (False, _modified),
    "replaced": (False, _replaced),
    "asked": (False, lambda text, random: _swap(_ASKED_WORDS, text, random)),
    "person": (False, lambda text, random: _swap(_OWNED_WORDS, text, random)),
}
"""Whether the answer stays, and the change."""

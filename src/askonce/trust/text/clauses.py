"""The earlier turns of a conversation cut into clauses, the pieces that are laid side by side."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import msgspec

from askonce.trust.text.lexicon import CONTRACTIONS, SOFT, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from askonce.canonical.conversation import Turn

_SENTENCE = re.compile(r"(?<=[.!?…])\s+|\n+|;\s+")
_CLAUSE = re.compile(r"[,:]\s+")
_WORD = re.compile(r"[-\u2212+]?\d+(?:[.,:/]\d+)*\w*|\w+(?:['.@/_&-]\w+)*|[^\w\s.,;:!?'\"()…]")
_CODE = re.compile(r"[`{}\[\]<>=\\|^~*+#]|\w\(|\n[ \t]")
"""What a turn has where every sign and space may count."""
_EMPTY = listed("please just so oh and um uh er hmm lol haha ha hehe")
"""Words whose presence changes no clause."""
_INTERROGATIVE = listed(
    """
    what when where who whom whose why how which is are am was were do does did can could will
    would shall should has have had may might any isn't aren't don't doesn't didn't can't won't
    """
)
_EXCLAIMING = listed("how what")
_ORDER = listed("do it that this so")
_LEADING = _EMPTY | listed(
    "then well now also ok okay great good right cool perfect lovely thanks but or hi hello hey btw"
    " yes yeah ah"
)
_NO_NAMES = listed(
    """
    i i'm i'd i'll i've ok monday tuesday wednesday thursday friday saturday sunday january
    february march april may june july august september october november december mr mrs ms dr
    hotel inn spa lodge restaurant cafe bar club museum theatre cinema ev tv pc id pin faq pdf qr
    usb app
    """
)


_CACHED = 1000
"""Characters up to which a turn is kept for the next question after it."""


class Clause(msgspec.Struct, frozen=True):
    """A clause, and where it stands."""

    role: Literal["user", "assistant"]
    turn: int
    text: str
    words: tuple[str, ...]
    """In lower case, contractions spelt out."""
    key: tuple[str, ...]
    """What clauses of one speaker that say the same have in common."""
    asks: bool
    """Its sentence is a question."""
    names: frozenset[str]
    """Words written like proper names, in lower case."""


def clauses(turns: Sequence[Turn]) -> list[Clause]:
    """All clauses in order; linear in the length of the turns."""
    return [
        Clause(turn.role, at, *part) for at, turn in enumerate(turns) for part in _read(turn.text)
    ]


class _Part(NamedTuple):
    """The rest of a `Clause`."""

    text: str
    words: tuple[str, ...]
    key: tuple[str, ...]
    asks: bool
    names: frozenset[str]


def _read(text: str) -> tuple[_Part, ...]:
    return _parts(text) if len(text) <= _CACHED else _parts.__wrapped__(text)


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[_Part, ...]:
    """The clauses of one turn; turns come again with every question that follows them."""
    words = words_of(text)
    if not words:  # a turn of signs alone, like a smile, is all that it says
        bare = text.strip()
        return (_Part(bare, (bare,), (bare,), asks=False, names=frozenset()),) if bare else ()
    if _CODE.search(text):
        names = names_of(text, opens=True)
        return (_Part(text, words, (text,), asks=False, names=names),)
    sentences = _SENTENCE.split(text.replace("\u2019", "'"))
    return tuple(part for sentence in sentences for part in _of_sentence(sentence))


def _of_sentence(sentence: str) -> Iterator[_Part]:
    asks = asking(sentence)
    for place, part in enumerate(_CLAUSE.split(sentence)):
        words = words_of(part)
        if words:
            key = ("?" if asks else ".", *(word for word in words if word not in _EMPTY))
            yield _Part(part, words, key, asks, names_of(part, opens=place == 0))


def words_of(text: str) -> tuple[str, ...]:
    """The words and signs of a text, in lower case."""
    found = _WORD.findall(text.replace("\u2019", "'").lower())
    return tuple(part for word in found for part in _spelt(word))


_ENDINGS = {"re": "are", "ve": "have", "ll": "will", "m": "am", "d": "would"}
_IS = listed("it that what where who how there he she here")


def _spelt(word: str) -> tuple[str, ...]:
    """A word without its contraction."""
    full = CONTRACTIONS.get(word.replace("'", ""))
    if full is not None:
        return tuple(full.split())
    head, mark, tail = word.rpartition("'")
    if not mark:
        return (word,)
    if tail == "s":
        return (head, "is") if head in _IS else (head, "'s")
    return (head, _ENDINGS[tail]) if tail in _ENDINGS else (word,)


def asking(sentence: str) -> bool:
    """Whether a sentence asks, with or without its mark."""
    if sentence.rstrip(" \"')").endswith("?"):
        return True
    words = sentence.lower().replace(",", " ").split()
    said = [word for word in words if word.strip(".!") not in _LEADING] or [""]
    if sentence.rstrip().endswith("!") and said[0] in _EXCLAIMING:
        return False
    return said[0].removesuffix("'s") in _INTERROGATIVE and not _ORDER.issuperset(said[:2])


def names_of(text: str, *, opens: bool) -> frozenset[str]:
    """Words with a capital where a sentence asks for none; all but the first when it opens one."""
    words = re.findall(r"\w+(?:['.&-]\w+)*", text)
    named = {
        word.removesuffix("'s").lower()
        for place, word in enumerate(words)
        if word[0].isupper()
        and (len(word) > 1 or place)
        and (place or not opens or _named_first(words))
    }
    return frozenset(named - _NO_NAMES)


def _named_first(words: list[str]) -> bool:
    """Whether the word that opens a sentence belongs to the name that follows."""
    return len(words) > 1 and words[1][0].isupper() and words[0].lower() not in SOFT

"""Questions without end of which no two are equal, each beside near ones, and vectors for them."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from askonce.ports import IndexedText, Neighbour, ReadText
from askonce.trust.alignment import pack, to_bytes
from askonce.trust.kept import kept
from askonce.trust.names import question_digest
from askonce.trust.text.opposites import OPPOSITES
from askonce.trust.text.reading import read as reading_of
from askonce.trust.text.synonyms import SYNONYMS
from askonce.units import Cosine, UnixTime

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from numpy.typing import NDArray

DIM = 384
MOST_WORDS = 20

_FRAMES = (
    "how do i {} my {} when the {} is still {}?",
    "what is the {} of a {} in {}, and who has to {} it before {}?",
    "Can {} {} the {} {} without a {} if the {} was {} by the {} in the {} already?",
    "why was my {} from {} {} on the {} of March, and not {} like the {} before it?",
    "is {} {} than {} for a {} of {} {}?",
    "which {} does {} need to {} {} {} into one {} while it's {} in {} or {}?",
    "I have {} {}; should I {} them or {} the {} first so that nobody can {} my {}?",
    "please tell me where the {} in {} can {} their {} after {} pm",
    "Who paid {} for the {} that {} did not {} in time, and when will the {} {}?",
    "does the {} {} cover {} that were {} by my {} abroad?",
)
_NAMES = (
    "Anna", "Boris", "Clara", "Deepak", "Elena", "Felix", "Hassan", "Ines", "Canada", "Japan",
    "Kenya", "Norway", "Peru", "Oslo", "Lima", "Cairo", "Delhi", "Paris", "user_id", "v2.1",
)  # fmt: skip
_WORDS = sorted({word for word in re.findall(r"[a-z]{3,}", SYNONYMS + OPPOSITES) if len(word) < 13})
_OPENINGS = ("please tell me, ", "hi, ", "quick question: ", "sorry, ", "so, ")
_SMALL = ("my", "the", "a", "not", "only", "before", "after", "to", "from", "who", "when", "now")


def asked(random: Random) -> str:
    """A question of at most MOST_WORDS words."""
    frame = random.choice(_FRAMES)
    filled = frame.format(*(_word(random) for _ in range(frame.count("{}"))))
    return _cut(filled, random)


def reworded(text: str, random: Random) -> str:
    """The same question but for one to three small changes."""
    for _ in range(random.randint(1, 3)):
        text = _changed(text, random)
    return " ".join(text.split()[:MOST_WORDS])


def _changed(text: str, random: Random) -> str:
    words = text.split()
    at = random.randrange(len(words))
    kind = random.randrange(7)
    if kind == 0:
        words[at] = _word(random)
    elif kind == 1:
        words.insert(at, random.choice(_SMALL))
    elif kind == 2 and len(words) > 3:
        del words[at]
    elif kind == 3:
        other = random.randrange(len(words))
        words[at], words[other] = words[other], words[at]
    elif kind == 4 and len(words[at]) > 4:
        words[at] = words[at][:2] + words[at][3] + words[at][2] + words[at][4:]
    elif kind == 5:
        return random.choice(_OPENINGS) + text[:1].lower() + text[1:]
    else:
        return text.lower() if random.random() < 0.5 else text.rstrip("?")
    return " ".join(words)


def _word(random: Random) -> str:
    draw = random.random()
    if draw < 0.1:
        return str(random.randrange(2, 3000))
    words = _NAMES if draw < 0.2 else _WORDS
    return words[random.randrange(len(words))]


def _cut(text: str, random: Random) -> str:
    words = text.split()
    return " ".join(words[: random.randint(max(5, len(words) - 4), MOST_WORDS)])


@lru_cache(maxsize=8192)
def _row(word: str) -> NDArray[np.float32]:
    random = np.random.default_rng(zlib.crc32(word.encode()))
    return random.standard_normal(DIM, dtype=np.float32)


def read(text: str) -> ReadText:
    """As an embedder reads it: a random direction a word, and their mean."""
    words = text.lower().split()
    rows = np.stack([_row(word) for word in ("", *words, "")])
    mean = rows[1:-1].sum(axis=0)
    ids = [0, *(zlib.crc32(word.encode()) % 30_000 for word in words), 0]
    vector = (mean / np.linalg.norm(mean)).astype(np.float32)
    return ReadText(vector, to_bytes(pack(ids, rows)))


@dataclass(frozen=True)
class Case:
    """A question beside what an index finds, best first."""

    text: str
    read: ReadText
    near: Sequence[Neighbour]


def case(random: Random, candidates: int, partition: bytes) -> Case:
    """A question that nobody asked before, and as many near ones."""
    text = asked(random)
    return beside(text, [reworded(text, random) for _ in range(candidates)], partition)


def beside(text: str, others: Sequence[str], partition: bytes) -> Case:
    """A question and the cached ones that are near to it."""
    own, found = read(text), []
    for other in others:
        known = read(other)
        key = question_digest(partition, other)
        item = IndexedText(key, other, UnixTime(9e9), kept(known.tokens, other, reading_of))
        cosine = Cosine(float(known.vector @ own.vector))
        found.append(Neighbour(cosine, item, known.vector.tobytes()))
    return Case(text, own, sorted(found, key=lambda one: -one.score))

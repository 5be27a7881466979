"""Questions made in the repository: an FAQ with many wordings, and look-alikes over a timetable."""

from __future__ import annotations

import random
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from askonce.lab.jobs import Questions
from askonce.lab.measured import Measured
from askonce.lab.stream import Neighbourhood
from askonce.trust.alignment import pack
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Text

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

_DIM = 64
_OPENINGS = ("", "hello,", "please help:", "hi there,", "quick one:", "good morning,", "sorry,")
_WANTS = ("how do I", "how can I", "what do I do to", "tell me how to", "I need to", "where can I")
_ENDS = ("", "today", "from my phone", "on the website", "quickly", "again", "for my wife")
_INTENTS = (
    ("reset my password", "change my login password", "get a new password"),
    ("track my parcel", "see where my parcel is", "follow my delivery"),
    ("cancel my order", "stop my order", "call off the order"),
    ("return the shoes", "send the shoes back", "give back these shoes"),
    ("pay by invoice", "get an invoice for payment", "pay later by bill"),
    ("delete my account", "close my account", "remove my profile"),
    ("update my address", "change where I live", "move my home address"),
    ("talk to a person", "reach a human agent", "speak with somebody"),
)
_CITIES = ("Bonn", "Graz", "Lyon", "Bern", "Turin", "Ghent", "Malmo", "Porto")
_DAYS = ("Monday", "Friday", "Sunday")
_ASKED = (
    "Which trains go from {} to {} on {}?",
    "List the trains from {} to {} on {}",
    "What trains run from {} to {} on {}, please?",
    "trains {} to {} {}",
    "Show me all trains leaving {} for {} on {}",
    "I want to travel from {} to {} on {}: which trains?",
)


def faq(count: int, seed: int = 0) -> Questions:
    """Few intents in many wordings; the intent is the group."""
    made = [
        (" ".join(part for part in (opening, want, said, end) if part), intent)
        for opening, want, end in product(_OPENINGS, _WANTS, _ENDS)
        for intent, wordings in enumerate(_INTENTS)
        for said in wordings
    ]
    return _questions("faq", random.Random(seed).sample(made, count))


def look_alike(count: int, seed: int = 0) -> Questions:
    """Every pair of cities and day is an answer of its own, asked in a few ways."""
    made = [
        (asked.format(one, other, day), (one, other, day))
        for one, other, day in product(_CITIES, _CITIES, _DAYS)
        for asked in _ASKED
        if one != other
    ]
    return _questions("look-alike", random.Random(seed).sample(made, count))


def _questions(name: str, made: Sequence[tuple[str, Hashable]]) -> Questions:
    directions: dict[str, int] = {}
    texts = [_text(words, directions) for words, _ in made]
    return Questions(
        name,
        [words for words, _ in made],
        [group for _, group in made],
        Neighbourhood(np.stack([text.vector for text in texts])),
        Measured(texts),
    )


def _text(words: str, directions: dict[str, int]) -> Text:
    """Each word has a direction; a text is their mean, so word order is lost."""
    said = [word.strip("?:,.").lower() for word in words.split()]
    ids = [directions.setdefault(word, len(directions) + 1) for word in said]
    rows = np.stack([_direction(number) for number in ids])
    mean = rows.mean(axis=0) + _direction(0)
    return Text(analyse(words), pack(ids, rows), mean / np.linalg.norm(mean))


def _direction(number: int) -> NDArray[np.float32]:
    return np.random.default_rng(number).standard_normal(_DIM).astype(np.float32)

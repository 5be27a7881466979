"""Training the prior."""

from __future__ import annotations

import zlib
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from askonce.lab import prior
from askonce.lab.sets import Asked, LabelledSet, Pair
from askonce.trust import features
from askonce.trust.alignment import TokenVectors, pack
from askonce.trust.prior import PAIR_NAMES

if TYPE_CHECKING:
    from askonce.ports import Vector


@cache
def _read(text: str) -> tuple[Vector, TokenVectors]:
    seeds = [zlib.crc32(word.encode()) for word in text.lower().split()]
    rows = np.array([np.random.default_rng(each).standard_normal(24) for each in [0, *seeds, 0]])
    mean = rows[1:-1].mean(axis=0)
    ids = [0, *(each % 30000 for each in seeds), 0]
    return (mean / np.linalg.norm(mean)).astype(np.float32), pack(ids, rows.astype(np.float32))


def test_a_group_set_gives_pairs_of_each_question_with_earlier_ones() -> None:
    """The second question has one neighbour, the third two; labels follow the groups."""
    labelled = LabelledSet(
        "any", asked=(Asked("red car", "a"), Asked("red van", "a"), Asked("blue sky", "b"))
    )
    made = prior.domain(labelled, _read)
    assert made.rows.shape == (3, len(features.NAMES))
    assert made.labels.sum() == 1


def test_pairs_of_conversations_are_left_out() -> None:
    """The prior is about two texts."""
    talk = [{"role": "user", "content": "hi"}]
    labelled = LabelledSet("any", pairs=(Pair("a b", "a c", 1), Pair(talk, talk, 0)))
    assert prior.domain(labelled, _read).labels.tolist() == [1.0]


def test_columns_speak_in_their_direction_or_not_at_all() -> None:
    """Labels that go against a column's meaning shut it instead of turning it."""
    pairs = [Pair(f"same {n} thing", f"same {n} thing", 0) for n in range(40)]
    pairs += [Pair(f"pay {n} now", f"pay {n + 1} now", 1) for n in range(40)]
    made = prior.domain(LabelledSet("any", pairs=tuple(pairs)), _read)
    trained = prior.train([made, prior.turned(["what is it", "can i pay 2 pounds"], _read)])
    found = dict(zip(PAIR_NAMES, trained.pair.centre, strict=True))
    for name, way in zip(features.NAMES, prior.directions(), strict=True):
        assert way * found[name] >= 0
        assert way != 0 or found[name] == 0


def test_likeness_for_and_differences_against_are_found() -> None:
    """On labels that follow the rules the prior comes out as its maker means it."""
    pairs = [Pair(f"please pay {n} now", f"pay {n} now", 1) for n in range(60)]
    pairs += [Pair(f"pay {n} now", f"pay {n + 7} now", 0) for n in range(60)]
    trained = prior.train([prior.domain(LabelledSet("any", pairs=tuple(pairs)), _read)])
    found = dict(zip(PAIR_NAMES, trained.pair.centre, strict=True))
    assert found["guard_numbers"] < 0
    assert found["differences"] == 0


def test_a_set_left_out_is_served_by_what_the_others_teach() -> None:
    """Numbers that differ are held back by their guard at any chance; likeness is served."""
    taught = [Pair(f"please pay {n} now", f"pay {n} now", 1) for n in range(60)]
    taught += [Pair(f"pay {n} now", f"sell boat {n + 7}", 0) for n in range(60)]
    unseen = [Pair(f"please move {n} on", f"move {n} on", 1) for n in range(9)]
    unseen += [Pair(f"move {n} on", f"move {n + 7} on", 0) for n in range(9)]
    sets = [LabelledSet("any", pairs=tuple(pairs)) for pairs in (taught, unseen)]
    found = prior.left_out([prior.domain(each, _read) for each in sets], 1)
    assert [each.least for each in found] == list(prior.LEVELS)
    assert all(each.different == 0 for each in found)
    assert found[0].same == 1
    assert all(one.same >= other.same for one, other in pairwise(found))

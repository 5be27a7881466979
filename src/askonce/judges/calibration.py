"""Pairs of answers whose truth is known, and what a judge makes of them."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.trust.judge_error import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Agreement, Judge
    from askonce.trust.judge_error import JudgeError, Truth


class AnswerPair(msgspec.Struct, frozen=True):
    """Two answers to one question."""

    kind: str
    question: str
    a: str
    b: str
    same: bool

    @property
    def truth(self) -> Truth:
        """What a judge should say."""
        return "same" if self.same else "different"


def shipped_pairs() -> list[AnswerPair]:
    """The pairs that come with AskOnce; reads a file, so not on the event loop."""
    lines = files(__package__).joinpath("data/pairs.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=AnswerPair) for line in lines]


async def measure(judge: Judge, pairs: Sequence[AnswerPair]) -> JudgeError:
    """The judge's error on the pairs."""
    verdicts: list[tuple[Agreement, Literal["same", "different"]]] = []
    for pair in pairs:
        verdict = await judge.judge(pair.question, pair.a, pair.b)
        verdicts.append((verdict.agreement, pair.truth))
    return estimate(verdicts)

"""Pairs of answers whose truth is known, and what a judge makes of them."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Literal

import msgspec

from askonce.trust.account.judge_error import estimate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Agreement, Judge
    from askonce.trust.account.judge_error import Measured, Truth


class AnswerPair(msgspec.Struct, frozen=True):
    """Two answers to one question."""

    kind: str
    question: str
    a: str
    b: str
    same: bool
    fresh: bool = False
    """Written after the rules and never used to make them, so that it tells their error."""

    @property
    def truth(self) -> Truth:
        """What a judge should say."""
        return "same" if self.same else "different"


def shipped_pairs(*, fresh: bool = False) -> list[AnswerPair]:
    """The pairs that come with AskOnce; reads a file, so not on the event loop.

    fresh: only those that the rules were not made with.
    """
    lines = files(__package__).joinpath("data/pairs.jsonl").read_bytes().splitlines()
    pairs = [msgspec.json.decode(line, type=AnswerPair) for line in lines]
    return [pair for pair in pairs if pair.fresh or not fresh]


async def measure(judge: Judge, pairs: Sequence[AnswerPair]) -> Measured:
    """The judge's error on the pairs."""
    verdicts: list[tuple[Agreement, Literal["same", "different"]]] = []
    for pair in pairs:
        verdict = await judge.judge(pair.question, pair.a, pair.b)
        verdicts.append((verdict.agreement, pair.truth))
    return estimate(verdicts)

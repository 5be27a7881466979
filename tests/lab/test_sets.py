"""Pairs as the semantic tier sees them."""

from __future__ import annotations

import pytest

from askonce.canonical.request import Question
from askonce.lab import sets

LAST = {"role": "user", "content": "Is that legal?"}
RENT = [{"role": "user", "content": "My landlord wants to raise the rent."}, LAST]
CHATTY = [{"role": "user", "content": "Hi! My landlord wants to raise the rent."}, LAST]
PAY = [{"role": "user", "content": "My employer wants to cut my pay."}, LAST]


@pytest.mark.parametrize(
    ("other", "whole", "by_meaning"),
    [(RENT, True, True), (CHATTY, False, True), (PAY, False, False)],
)
def test_conversations_are_compared_as_configured(
    other: list[dict[str, str]], *, whole: bool, by_meaning: bool
) -> None:
    """Whole, or clause by clause."""
    for rule, expected in ((False, whole), (True, by_meaning)):
        a, b = (sets.question(side, by_meaning=rule) for side in (RENT, other))
        assert isinstance(a, Question)
        assert isinstance(b, Question)
        assert sets.comparable(a, b) is expected

"""Who may be answered with an entry that somebody else brought about."""

from __future__ import annotations

import msgspec
import pytest
from tests.canonical.test_entry import ENTRY

from askonce.policy.confirmation import MOST, OPERATOR, is_open, vouched_by

MINE = msgspec.structs.replace(ENTRY, author=b"me")


def test_ones_own_answers_are_open() -> None:
    """An author waits for nobody; where nobody is an author, nobody waits."""
    assert is_open(MINE, b"me", 1)
    assert is_open(ENTRY, b"", 1)


@pytest.mark.parametrize(
    ("vouched", "callers", "opened"),
    [
        ((), 1, False),
        ((b"me",), 1, False),
        ((b"one",), 1, True),
        ((b"one",), 2, False),
        ((b"one", b"one"), 2, False),
        ((b"one", b"two"), 2, True),
        ((OPERATOR,), 8, True),
    ],
)
def test_others_wait_for_others(vouched: tuple[bytes, ...], callers: int, *, opened: bool) -> None:
    """So many different callers beside the author, or the operator alone."""
    entry = msgspec.structs.replace(MINE, vouched=vouched)
    assert is_open(entry, b"you", callers) is opened


def test_an_entry_without_an_author_waits_as_well() -> None:
    """What was written before confirmation was asked for is nobody's own."""
    assert not is_open(ENTRY, b"you", 1)


def test_vouchers_are_kept_once_and_bounded() -> None:
    """The same caller counts once, and only so many are kept."""
    entry = MINE
    for number in (1, 1, *range(2, 12)):
        entry = vouched_by(entry, b"%d" % number)
    assert len(entry.vouched) == MOST
    assert len(set(entry.vouched)) == MOST

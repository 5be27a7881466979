"""What models put around an answer is taken off, and nothing else."""

from __future__ import annotations

import pytest

from askonce.trust.text.dates import dated
from askonce.trust.text.quantities import quantities
from askonce.trust.text.wording import (
    asks_yes_or_no,
    bare,
    letters,
    polarity,
    refuses,
    spans,
    unmarked,
)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Sure! Here is the answer: **Lima**.", "Lima."),
        ("Great question! The answer is: 42", "42"),
        ("Sure", "Sure"),
        ("It is not safe.", "It is not safe."),
        ("The answer is not 5.", "The answer is not 5."),
        ("Lima. Let me know if you need anything else!", "Lima."),
        ("Yes, it is free. Hope this helps! Have a great day!", "free."),
        ("# Title\n> quoted *words* and snake_case_name", "Title quoted words and snake_case_name"),
        ("See [the page](https://example.com/a).", "See the page."),
        ("", ""),
    ],
)
def test_lays_an_answer_bare(text: str, kept: str) -> None:
    """Courtesy, frames and markup go; negations and names stay."""
    assert bare(unmarked(text)) == kept


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        ("Yes, of course", False, "yes"),
        ("No.", False, "no"),
        ("No more than five", False, ""),
        ("Correct.", False, "yes"),
        ("Right door", False, ""),
        ("False", False, "no"),
        ("It is 5 km away", False, ""),
        ("It is included", True, "yes"),
        ("It isn't included", True, "no"),
        ('"Yes"', False, "yes"),
        ("Northern", False, ""),
    ],
)
def test_hears_yes_and_no(text: str, says: str, *, asked: bool) -> None:
    """A clear word counts always, a verb only where the question asks for it."""
    assert polarity(text, asked=asked) == says


def test_knows_questions_that_yes_answers() -> None:
    """They begin with a verb."""
    assert asks_yes_or_no(" Is it free?")
    assert not asks_yes_or_no("What is free?")


def test_hears_a_refusal() -> None:
    """A text that gives no answer is told from one that does."""
    assert refuses("I'm sorry, but I can't do that.")
    assert refuses("Unfortunately, I cannot help.")
    assert refuses("N/A")
    assert not refuses("I can help: press the button.")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Option A", "A"),
        ("A dog. A cat", ""),
        ("Vitamin A deficiency", "A"),
        ("B) or C", "BC"),
        ("I say A.", "A"),
        ("A", "A"),
        ("U.S. and B&B and D-day", ""),
    ],
)
def test_finds_letters_that_stand_alone(text: str, found: str) -> None:
    """A letter that names something is told from an article and from initials."""
    assert letters(text) == frozenset(found)


def test_finds_code_between_backticks() -> None:
    """Spans are told in one spelling; fences are none."""
    assert spans("Use `Git  push` or ```x```") == {"git push"}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5 March 2024", "20240305"),
        ("the 5th of March, 2024", "the 20240305"),
        ("Mar. 5, 2024", "20240305"),
        ("March the 5th", "99990305"),
        ("2024/3/5", "20240305"),
        ("25.12.2024", "20241225"),
        ("12/25/2024", "20241225"),
        ("2024-13-45", "2024-13-45"),
        ("45/13/2024", "45/13/2024"),
        ("may 3.5 be enough", "may 3.5 be enough"),
    ],
)
def test_writes_dates_as_one_number(text: str, number: str) -> None:
    """All spellings of a day meet; what is no day stays."""
    assert dated(text) == (number, ())


def test_tells_dates_with_two_readings() -> None:
    """A day that may be a month is told, unless both are the same."""
    assert dated("03/04/2025 and 05/05/2025") == ("20250304 and 20250505", ("03/04/2025",))


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("1 km", "1000 m", True),
        ("1 km", "1 m", False),
        ("1 km", "1 kg", False),
        ("1 km", "1", True),
        ("60 min", "1 hour", True),
        ("61 min", "1 hour", False),
        ("$5", "5 dollars", True),
        ("-5", "5", False),
        ("- 5", "5", True),
        ("5 inches", "12.7 cm", True),
        ("two weeks", "14 days", True),
    ],
)
def test_compares_quantities_by_value(one: str, other: str, *, equal: bool) -> None:
    """Units are converted, kinds of units never mixed."""
    (left,), _ = quantities(one)
    (right,), _ = quantities(other)
    assert left.equals(right) is equal
    assert right.equals(left) is equal


def test_leaves_numbers_that_a_float_cannot_hold() -> None:
    """A long row of digits is no quantity."""
    assert quantities("1234567890123456") == ((), ("1234567890123456",))


@pytest.mark.parametrize(
    ("one", "other", "rounds"),
    [("3.14", "3.14159", True), ("3.15", "3.14159", False), ("3.14", "3.14", False)],
)
def test_sees_rounding(one: str, other: str, *, rounds: bool) -> None:
    """A number with fewer digits may be the other one, rounded."""
    (left,), _ = quantities(one)
    (right,), _ = quantities(other)
    assert left.rounds(right) is rounds

"""Numbers are brought to one spelling."""

from __future__ import annotations

import pytest

from askonce.trust.text.numbers import decimal, numbered
from askonce.trust.text.reading import analyse
from askonce.trust.text.tokens import normalised, tokens


def spelt(text: str) -> list[str]:
    return [token.text for token in numbered(tokens(normalised(text)))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", "1000"),
        ("1,000,000.50", "1000000.50"),
        ("1.000,50", "1000.50"),
        ("12,5", "12,5"),
        ("3.10", "3.10"),
        ("2.0", "2"),
        ("007", "7"),
        ("0", "0"),
        ("1.2.3", "1.2.3"),
        ("1,23,456", "123456"),
    ],
)
def test_digits_lose_what_carries_no_value(text: str, value: str) -> None:
    """Separators, leading zeros and empty fractions go; versions and lists stay as they are."""
    assert decimal(text) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("two hundred and five", ["200", "and", "5"]),
        ("twenty-five", ["25"]),
        ("twenty one", ["21"]),
        ("one", ["one"]),
        ("three thousand twenty", ["3020"]),
        ("two hundred thousand", ["200000"]),
        ("five three", ["5", "3"]),
        ("third", ["3"]),
        ("thirty first", ["31"]),
        ("the 21st", ["the", "21"]),
        ("10k", ["10000"]),
        ("2.5 million", ["2500000"]),
        ("1.2.3 k", ["0"]),
        ("1,5 million", ["1500000"]),
        ("5 hundred", ["5", "hundred"]),
        ("5 pm", ["17:00"]),
        ("12am", ["0:00"]),
        ("7:30 am", ["7:30"]),
        ("17:45", ["17:45"]),
        ("2024 am", ["2024"]),
        ("noon", ["12:00"]),
        ("hundred", ["hundred"]),
    ],
)
def test_numbers_and_times_have_one_spelling(text: str, expected: list[str]) -> None:
    """Words, suffixes and the twelve-hour clock end in the same digits."""
    assert spelt(text) == expected


@pytest.mark.parametrize(
    "text", ["\u00b9 million", "x\u00b9", "\u00b2\u00b9 thousand", "10\u00b2 k"]
)
def test_raised_digits_are_no_numbers(text: str) -> None:
    """They stand for a note or a power, and a number is not made of them."""
    assert analyse(text) is not None

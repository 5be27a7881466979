"""Calendar dates in their many spellings, brought to one that reads as a single number."""

from __future__ import annotations

import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>\d{4})"
_WRITTEN = (
    re.compile(rf"\b{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?\b", re.IGNORECASE),
    re.compile(rf"\b{_MONTH} (?:the )?{_DAY}(?:,? {_YEAR})?\b(?!\.\d|:)", re.IGNORECASE),
)
_ISO = re.compile(r"\b(?P<year>\d{4})([-/.])(?P<month>\d{1,2})\2(?P<day>\d{1,2})\b")
_SLASHED = re.compile(r"\b(?P<one>\d{1,2})([-/.])(?P<two>\d{1,2})\2(?P<year>\d{4})\b")
_NO_YEAR = 9999


def dated(text: str) -> tuple[str, tuple[str, ...]]:
    """The text with each date as one number, and its dates that have two readings: 03/04/2025."""
    ambiguous: list[str] = []

    def slashed(found: re.Match[str]) -> str:
        one, two = sorted((int(found["one"]), int(found["two"])))
        if one == 0 or one > 12 or two > 31:
            return found[0]
        if two <= 12 and one != two:
            ambiguous.append(found[0])
        return _number(found["year"], one, two)

    for pattern in _WRITTEN:
        text = pattern.sub(_written, text)
    text = _ISO.sub(_iso, text)
    return _SLASHED.sub(slashed, text), tuple(ambiguous)


def _written(found: re.Match[str]) -> str:
    month = _MONTHS.index(found["month"][:3].casefold()) + 1
    return _number(found["year"] or _NO_YEAR, month, int(found["day"]))


def _iso(found: re.Match[str]) -> str:
    month, day = int(found["month"]), int(found["day"])
    return _number(found["year"], month, day) if 1 <= month <= 12 and day <= 31 else found[0]


def _number(year: str | int, month: int, day: int) -> str:
    return f"{year}{month:02}{day:02}"

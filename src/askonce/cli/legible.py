"""What callers wrote, as a terminal may show it."""

from __future__ import annotations


def legible(text: str) -> str:
    """Signs that a terminal would obey or not show are spelt out; lines stay lines."""
    return "".join(
        sign if sign.isprintable() or sign == "\n" else sign.encode("unicode_escape").decode()
        for sign in text
    )

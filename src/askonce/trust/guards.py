"""Vetoes: lexical evidence that two questions want different answers."""

from __future__ import annotations


def veto(question: str, cached: str) -> str | None:
    """The name of the first guard that holds evidence against serving, or None."""
    raise NotImplementedError

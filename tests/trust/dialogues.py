"""Pairs of conversations with the same last words, written for these tests."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from askonce.canonical.conversation import Turn
from askonce.trust.text.context import Side

_FILE = Path(__file__).with_name("conversations.txt")
_ROLES = {"u": "user", "a": "assistant"}


class Dialogue(NamedTuple):
    """Two conversations, and whether one answer serves both."""

    same: bool
    kind: str
    domain: str
    a: Side
    b: Side


def dialogues() -> list[Dialogue]:
    """All pairs of the file: `= label kind domain`, then turns, those of one side marked A or B."""
    blocks = _FILE.read_text(encoding="utf-8").strip().split("\n\n")
    return [_dialogue(block.splitlines()) for block in blocks]


def _dialogue(lines: list[str]) -> Dialogue:
    _, label, kind, domain = lines[0].split()
    return Dialogue(label == "same", kind, domain, _side(lines[1:], "A"), _side(lines[1:], "B"))


def _side(lines: list[str], name: str) -> Side:
    turns = []
    for line in lines:
        opening, _, text = line.partition(": ")
        only, _, role = opening.rpartition(" ")
        if only in {"", name}:
            turns.append(Turn(_ROLES[role], text))  # type: ignore[arg-type] # one of two
    return Side(turns[-1].text, tuple(turns[:-1]))

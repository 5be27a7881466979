"""Labelled sets on disk: questions grouped by answer, and pairs that share one or not."""

from __future__ import annotations

import gzip
import random
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec

from askonce.canonical.request import Question, parse_chat, question_of
from askonce.errors import ConfigError, RequestError
from askonce.trust.text.context import Side, estranged

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUPS = ".group.jsonl"
PAIRS = ".pairs.jsonl"
_ENDINGS = tuple(kind + packed for kind in (GROUPS, PAIRS) for packed in ("", ".gz"))

Row = TypeVar("Row")


class Asked(msgspec.Struct, frozen=True):
    """One question of a group set: questions of equal groups want the same answer."""

    text: str
    group: str | int


class Pair(msgspec.Struct, frozen=True):
    """Two questions, each a text or a list of chat messages, and whether one answer serves both."""

    a: str | list[dict[str, Any]]
    b: str | list[dict[str, Any]]
    same: bool | int
    category: str = ""
    subtype: str = ""
    test: str = ""

    @property
    def kind(self) -> str:
        """What the set calls this kind of pair."""
        return self.category or self.subtype or self.test or "all"


class LabelledSet(msgspec.Struct, frozen=True):
    """One file; exactly one of the two is filled."""

    name: str
    asked: tuple[Asked, ...] = ()
    pairs: tuple[Pair, ...] = ()


def find(paths: list[Path]) -> list[Path]:
    """The set files among these files and folders, sorted in each; raises ConfigError."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(file for file in path.rglob("*") if file.name.endswith(_ENDINGS))
        elif path.name.endswith(_ENDINGS) and path.is_file():
            found.append(path)
        else:
            raise ConfigError(f"{path} is no set: its name must end in one of {_ENDINGS}")
    if not found:
        raise ConfigError(f"no file under {', '.join(map(str, paths))} ends in one of {_ENDINGS}")
    return found


def load(path: Path, *, limit: int) -> LabelledSet:
    """Read one set, at most `limit` rows (0: all) drawn in an order fixed by seed 0."""
    name = path.name.partition(".")[0]
    if GROUPS in path.name:
        unique = {row.text: row for row in _rows(path, Asked)}
        return LabelledSet(name, asked=tuple(_drawn(list(unique.values()), limit)))
    return LabelledSet(name, pairs=tuple(_drawn(list(_rows(path, Pair)), limit)))


def _drawn(rows: list[Row], limit: int) -> list[Row]:
    random.Random(0).shuffle(rows)  # noqa: S311 - a fixed order, not a secret
    return rows[:limit] if limit else rows


def _rows(path: Path, kind: type[Row]) -> Iterator[Row]:
    decode = msgspec.json.Decoder(kind).decode
    number = 0
    with _opened(path) as file:
        try:
            for number, line in enumerate(file, 1):  # noqa: B007 - told on failure
                if line.strip():
                    yield decode(line)
        except (msgspec.DecodeError, gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise ConfigError(f"{path}, at line {number}: {error}") from error


def _opened(path: Path) -> BinaryIO | gzip.GzipFile:
    return gzip.GzipFile(path) if path.suffix == ".gz" else path.open("rb")


def question(side: str | list[dict[str, Any]], *, by_meaning: bool = False) -> Question | None:
    """What the semantic tier compares of one side of a pair; None where it never serves.

    by_meaning: as `semantic.conversations`.
    """
    messages = [{"role": "user", "content": side}] if isinstance(side, str) else side
    body = msgspec.json.encode({"model": "any", "messages": messages})
    try:
        asked = question_of(parse_chat(body), max_temperature=1.0, by_meaning=by_meaning)
    except RequestError:
        return None
    return asked if isinstance(asked, Question) else None


def comparable(cached: Question, asked: Question) -> bool:
    """Whether all around the two texts lets the tier compare them."""
    if (cached.frame, cached.open) != (asked.frame, asked.open):
        return False
    return estranged(Side(asked.text, asked.turns), Side(cached.text, cached.turns)) is None

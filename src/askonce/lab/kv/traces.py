"""Traces of requests as chains of prefix blocks; every format comes out the same.

Known formats, told by their contents: Mooncake (`hash_ids`), Azure (CSV of lengths), coded agent
sessions (`requests` with `keep` and `new`), dialogues (`messages`). Files may be gzipped.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

DIALOGUE_BLOCK: Final = 64
_SESSION_BLOCK: Final = 2048
"""Agent sessions are long: 64-token blocks are read as chains of this many tokens."""
_AZURE_BLOCK: Final = 512
_MOONCAKE_BLOCK: Final = 512
_CHARS_A_TOKEN: Final = 4
_ANSWER_SECONDS: Final = 0.02
"""Time to decode one token, which a dialogue's next turn waits for."""
_THINK_SECONDS: Final = 12.0


class Request(msgspec.Struct, frozen=True, gc=False):
    """One prompt."""

    at: float
    """Seconds: since the trace's start, or since its session's in a `Session`."""
    tokens: int
    output: int
    blocks: tuple[int, ...]
    """Names of its full blocks; equal names mean equal prefixes."""


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Requests in the order of their arrival, or sessions that may begin at any time."""

    name: str
    block_tokens: int
    requests: tuple[Request, ...] = ()
    sessions: tuple[tuple[Request, ...], ...] = ()
    """Set instead of `requests` where the trace has no time of its own between sessions."""

    def laid_out(self, window: float, seed: int = 0) -> Trace:
        """With sessions begun at random times of a window of so many seconds."""
        if not self.sessions:
            return self
        draw = random.Random(seed)  # noqa: S311 - reproducible, not secret
        placed: list[Request] = []
        for session in self.sessions:
            start = draw.random() * window
            placed += [msgspec.structs.replace(one, at=one.at + start) for one in session]
        placed.sort(key=lambda one: one.at)
        return Trace(name=self.name, block_tokens=self.block_tokens, requests=tuple(placed))


def read(path: Path, limit: int = 0) -> Trace:
    """Read one trace; limit: requests, or sessions where it has those; 0 takes all.

    Raises ConfigError for a file that cannot be read or is of no known format.
    """
    name = path.name.removesuffix(".gz").rsplit(".", 1)[0]
    try:
        with _opened(path) as file:
            if ".csv" in path.name:
                return _azure(name, csv.DictReader(file), limit)
            return _from_rows(name, [json.loads(line) for line in _first(file, limit)])
    except (OSError, ValueError, KeyError, TypeError, EOFError) as reason:
        raise ConfigError(f"{path}: not a trace that can be read: {reason!r}") from None


def _opened(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.open(path), encoding="utf-8")
    return path.open(encoding="utf-8")


def _first(lines: Iterable[str], limit: int) -> Iterator[str]:
    for number, line in enumerate(lines):
        if limit and number >= limit:
            return
        if line.strip():
            yield line


def _from_rows(name: str, rows: Sequence[dict[str, Any]]) -> Trace:
    if not rows:
        raise ValueError("it is empty")
    if "hash_ids" in rows[0]:
        return _mooncake(name, rows)
    if "requests" in rows[0]:
        return _agents(name, rows)
    if "messages" in rows[0]:
        return _dialogues(name, rows)
    raise ValueError("no hash_ids, requests or messages in its first line")


def _mooncake(name: str, rows: Sequence[dict[str, Any]]) -> Trace:
    requests = [
        Request(
            row["timestamp"] / 1000,
            max(1, row["input_length"]),
            row["output_length"],
            tuple(row["hash_ids"][: row["input_length"] // _MOONCAKE_BLOCK]),
        )
        for row in rows
    ]
    requests.sort(key=lambda one: one.at)
    return Trace(name=name, block_tokens=_MOONCAKE_BLOCK, requests=tuple(requests))


def _azure(name: str, rows: Iterable[dict[str, str]], limit: int) -> Trace:
    """Lengths alone: no two prompts share a block."""
    requests: list[Request] = []
    named = 0
    start: dt.datetime | None = None
    for row in rows:
        at = dt.datetime.fromisoformat(row["TIMESTAMP"][:26])
        start = start or at
        tokens = max(1, int(row["ContextTokens"]))
        blocks = tuple(range(named, named + tokens // _AZURE_BLOCK))
        named += len(blocks)
        requests.append(
            Request((at - start).total_seconds(), tokens, int(row["GeneratedTokens"]), blocks)
        )
        if limit and len(requests) >= limit:
            break
    requests.sort(key=lambda one: one.at)
    return Trace(name=name, block_tokens=_AZURE_BLOCK, requests=tuple(requests))


class _Names:
    """Numbers for chains of blocks: a block is named by its parent and its contents."""

    def __init__(self) -> None:
        self._known: dict[object, int] = {}

    def of(self, parent: int, contents: object) -> int:
        key = (parent, contents)
        return self._known.setdefault(key, len(self._known))


def _agents(name: str, rows: Sequence[dict[str, Any]]) -> Trace:
    names = _Names()
    sessions = []
    for number, row in enumerate(rows):
        fine = _SESSION_BLOCK // row["block_size"]
        threads: dict[str, tuple[list[int], list[int]]] = {}
        session = []
        for call in row["requests"]:
            ids, chain = threads.get(call["th"], ([], []))
            ids = ids[: call["keep"]]
            for first, count in call["new"]:
                ids.extend(range(first, first + count))
            chain = chain[: call["keep"] // fine]
            for place in range(len(chain), len(ids) // fine):
                parent = chain[-1] if chain else -1 - number
                chain.append(names.of(parent, tuple(ids[place * fine : (place + 1) * fine])))
            threads[call["th"]] = (ids, chain)
            tokens = max(1, call["in"])
            blocks = tuple(chain[: tokens // _SESSION_BLOCK])
            session.append(Request(call["t"], tokens, call["out"], blocks))
        session.sort(key=lambda one: one.at)
        sessions.append(tuple(session))
    return Trace(name=name, block_tokens=_SESSION_BLOCK, sessions=tuple(sessions))


def _dialogues(name: str, rows: Sequence[dict[str, Any]]) -> Trace:
    names = _Names()
    return Trace(
        name=name,
        block_tokens=DIALOGUE_BLOCK,
        sessions=tuple(tuple(_turns(row["messages"], names)) for row in rows),
    )


def _turns(messages: Sequence[dict[str, Any]], names: _Names) -> Iterator[Request]:
    """Every assistant message is one call, whose prompt is all that stands before it."""
    text, at, chain = "", 0.0, list[int]()
    size = DIALOGUE_BLOCK * _CHARS_A_TOKEN
    for message in messages:
        spelled = json.dumps(message, sort_keys=True)
        if message["role"] == "assistant":
            for place in range(len(chain), len(text) // size):
                parent = chain[-1] if chain else -1
                chain.append(names.of(parent, text[place * size : (place + 1) * size]))
            output = len(spelled) // _CHARS_A_TOKEN
            yield Request(at, max(1, len(text) // _CHARS_A_TOKEN), output, tuple(chain))
            at += output * _ANSWER_SECONDS
        elif message["role"] == "user":
            at += _THINK_SECONDS
        text += spelled

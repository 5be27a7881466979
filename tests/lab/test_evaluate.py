"""Evaluation on tiny sets with a fake embedder."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from askonce.errors import ConfigError, TextTooLong
from askonce.lab import sets
from askonce.lab.evaluate import STATIC, Options, evaluate
from askonce.lab.scoring import Rule, Stream, Tally, ceiling, replay, replay_storing_all
from askonce.lab.table import render
from askonce.lab.vectors import VectorCache
from askonce.units import Seconds

if TYPE_CHECKING:
    from pathlib import Path

    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

RESET = "How do I reset my password?"
RESET_TOO = "how can I reset my password"
ROUTER = "How do I reset my router?"
FAR = "Why jazz?"
LONG = "x" * 1000


class LetterEmbedder:
    """Counts letters: texts of like letters are near."""

    id = "letters"
    dim = 26

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def expected_time(self, text: str) -> Seconds:
        """Say nothing of the time."""
        return Seconds(0)

    async def embed(self, text: str) -> Vector:
        """Embed one text; longer than 500 characters does not fit."""
        if len(text) > 500:
            raise TextTooLong(text[:9])
        self.embedded.append(text)
        counts = np.array([text.lower().count(chr(97 + k)) for k in range(26)], dtype=np.float32)
        counts[0] += 0.1
        return np.asarray(counts / np.linalg.norm(counts), dtype=np.float32)

    async def close(self) -> None:
        """Release nothing."""


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    body = b"\n".join(msgspec.json.encode(row) for row in rows) + b"\n\n"
    path.write_bytes(gzip.compress(body) if path.suffix == ".gz" else body)
    return path


def chat(first: str, last: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": first},
        {"role": "assistant", "content": "Yes."},
        {"role": "user", "content": last},
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two sets as a user would write them."""
    write(
        tmp_path / "faq.group.jsonl.gz",
        [
            {"id": "1", "text": RESET, "group": "password"},
            {"id": "2", "text": RESET_TOO, "group": "password", "more": 1},
            {"id": "3", "text": ROUTER, "group": "router"},
            {"id": "4", "text": FAR, "group": 7},
            {"id": "5", "text": FAR, "group": 7},
            {"id": "6", "text": LONG, "group": 8},
        ],
    )
    write(
        tmp_path / "twins.pairs.jsonl",
        [
            {"a": RESET, "b": RESET_TOO, "same": 1, "category": "reworded"},
            {"a": RESET, "b": "please: how do i reset my password?", "same": 1},
            {"a": RESET, "b": ROUTER, "same": 0, "category": "swap"},
            {"a": chat("Hello", RESET), "b": chat("Hello", RESET), "same": 1, "subtype": "repeat"},
            {"a": chat("Hello", RESET), "b": chat("Bye", RESET), "same": 0, "subtype": "context"},
            {"a": "", "b": RESET, "same": 0},
            {"a": [{"role": 5}], "b": RESET, "same": 0},
        ],
    )
    return tmp_path


async def test_streams_and_pairs_are_scored_next_to_bare_thresholds(folder: Path) -> None:
    """The product's decision and static thresholds meet the same questions in one run."""
    told: list[str] = []
    options = Options(floors=(0.75,), cache=folder / "cache")
    report = await evaluate([folder], LetterEmbedder(), options, progress=told.append)
    faq, twins = report.sets
    assert (faq.name, faq.rows, faq.skipped) == ("faq", 4, 1)
    assert faq.ceiling == 0.25
    askonce, static, *all_stored = faq.streams
    assert (askonce.rule, askonce.hit_share, askonce.wrong_share) == ("askonce", 0.25, 0.0)
    assert (static.rule, static.hit_share, static.wrong_per_thousand) == ("static", 0.5, 500.0)
    assert [score.floor for score in all_stored] == list(STATIC)
    assert (twins.rows, twins.skipped) == (5, 2)
    served = {
        (score.rule, score.kind, score.same): (score.served, score.pairs)
        for score in twins.pairs
        if score.floor in {0.75, 0.85}
    }
    assert served["askonce", "reworded", True] == (1, 1)
    assert served["askonce", "swap", False] == (0, 1)
    assert served["static", "swap", False] == (1, 1)
    assert served["askonce", "repeat", True] == (1, 1)
    assert served["askonce", "context", False] == (0, 1)
    assert served["static", "context", False] == (1, 1)
    assert told


async def test_the_table_shows_every_set_and_rule(folder: Path) -> None:
    """One line a set, one a kind of pair, one for all kinds together."""
    report = await evaluate([folder], LetterEmbedder(), Options(floors=(0.9,)))
    text = render(report)
    assert "faq  4     25.0" in text
    assert "25.0/0.0 (0.0)" in text
    assert "(together)" in text
    assert "3 rows left out" in text


async def test_a_table_of_one_kind_has_no_total(tmp_path: Path) -> None:
    """A single set of one label and kind gives one line."""
    path = write(tmp_path / "one.pairs.jsonl", [{"a": RESET, "b": RESET_TOO, "same": 1}])
    text = render(await evaluate([path], LetterEmbedder(), Options()))
    assert "one  all" in text
    assert "together" not in text
    assert "left out" not in text


async def test_embeddings_are_kept_between_runs(folder: Path) -> None:
    """A second run embeds nothing; a text that does not fit is remembered as such."""
    options = Options(cache=folder / "cache")
    await evaluate([folder / "faq.group.jsonl.gz"], LetterEmbedder(), options)
    again = LetterEmbedder()
    report = await evaluate([folder / "faq.group.jsonl.gz"], again, options)
    assert again.embedded == []
    assert report.sets[0].skipped == 1


async def test_progress_is_told_and_saved_on_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long run can be broken off without losing what it has embedded."""
    monkeypatch.setattr("askonce.lab.vectors._REPORT_EVERY", 2)
    monkeypatch.setattr("askonce.lab.vectors._SAVE_EVERY", 2)
    told: list[str] = []
    cache = VectorCache(LetterEmbedder(), tmp_path, told.append)
    await cache.embed(["one", "two", "three"])
    assert told == ["  embedded 2 of 3"]
    assert len(VectorCache(LetterEmbedder(), tmp_path, told.append)) == 3


async def test_a_set_of_texts_that_never_fit_scores_nothing(tmp_path: Path) -> None:
    """Nothing to compare is no error."""
    path = write(tmp_path / "long.group.jsonl", [{"text": LONG, "group": 1}])
    report = await evaluate([path], LetterEmbedder(), Options())
    assert report.sets[0].streams == ()


async def test_limit_takes_the_same_rows_each_time(folder: Path) -> None:
    """The draw is fixed by a seed."""
    path = folder / "faq.group.jsonl.gz"
    assert sets.load(path, limit=2) == sets.load(path, limit=2)
    assert len(sets.load(path, limit=2).asked) == 2


@pytest.mark.parametrize("name", ["nothing.txt", "absent.pairs.jsonl"])
def test_a_path_that_is_no_set_is_refused(tmp_path: Path, name: str) -> None:
    """The error names the endings that count."""
    with pytest.raises(ConfigError, match=r"group\.jsonl"):
        sets.find([tmp_path / name])


def test_a_folder_without_sets_is_refused(tmp_path: Path) -> None:
    """An empty evaluation would look like a good one."""
    with pytest.raises(ConfigError, match="ends in one of"):
        sets.find([tmp_path])


@pytest.mark.parametrize("body", [b'{"text": 5, "group": 1}\n', b"{", b"\x1f\x8b\x08broken"])
def test_a_broken_line_is_named(tmp_path: Path, body: bytes) -> None:
    """The error says in which file, and how far reading got."""
    path = tmp_path / ("x.group.jsonl.gz" if body.startswith(b"\x1f") else "x.group.jsonl")
    path.write_bytes(body)
    with pytest.raises(ConfigError, match=r"x\.group\.jsonl"):
        sets.load(path, limit=0)


def test_an_empty_tally_has_shares_of_nothing() -> None:
    """No question and no hit divide nothing."""
    empty = Tally(0, 0, 0)
    assert (empty.hit_share, empty.wrong_share, empty.wrong_per_thousand) == (0.0, 0.0, 0.0)
    assert ceiling([]) == 0.0


def test_a_stream_stores_what_it_misses_and_nothing_else() -> None:
    """A hit is not stored, so a later question is compared with the first of its kind alone."""
    angles = [0.0, 0.3, 0.6]
    vectors = np.array([[np.cos(x), np.sin(x)] for x in angles], dtype=np.float32)
    stream = Stream(["a", "b", "c"], [1, 1, 1], vectors)
    assert replay(stream, Rule(0.95, guarded=False), neighbours=5) == Tally(3, 1, 0)
    assert replay_storing_all(stream, [0.95]) == [Tally(3, 2, 0)]


def test_the_guards_let_a_farther_neighbour_answer() -> None:
    """As in the product, the next candidate is asked when the nearest is vetoed."""
    texts = [RESET, ROUTER, RESET_TOO]
    vectors = np.array([[1, 0], [0.9, 0.43589], [0.92, 0.391918]], dtype=np.float32)
    stream = Stream(texts, ["p", "r", "p"], vectors)
    assert replay(stream, Rule(0.9, guarded=True), neighbours=2) == Tally(3, 1, 0)
    assert replay(stream, Rule(0.9, guarded=True), neighbours=1) == Tally(3, 0, 0)


async def test_a_report_of_streams_alone_has_one_table(folder: Path) -> None:
    """No pairs, no table of pairs."""
    report = await evaluate([folder / "faq.group.jsonl.gz"], LetterEmbedder(), Options())
    assert "Pairs" not in render(report)

"""The whole suite on tiny sets with a fake embedder."""

from __future__ import annotations

import gzip
import sys
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pytest

from askonce.errors import ConfigError, TextTooLong
from askonce.lab import pages, pairwise
from askonce.lab.readings import Readings
from askonce.lab.scoring import Tally
from askonce.lab.suite import SuiteOptions, read, run
from askonce.lab.verdicts import exceeds, verdicts
from askonce.ports import ReadText
from askonce.trust.alignment import pack, to_bytes
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from askonce.lab.verdicts import SuiteReport
    from askonce.ports import Vector

pytestmark = pytest.mark.anyio

_THINGS = ("password", "router", "invoice", "parcel", "kitchen", "garden")
_WAYS = (
    "How do I reset my {}?",
    "how can I reset my {}",
    "please tell me how to reset the {}",
    "resetting the {}: how?",
    "What resets a {}?",
    "I want my {} reset",
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class WordEmbedder:
    """Words hash to directions; a text is their mean. Texts of over 200 characters do not fit."""

    id = "words"
    dim = 32

    def __init__(self) -> None:
        self.read_texts: list[str] = []

    def expected_time(self, text: str) -> Seconds:
        """Say nothing of the time."""
        return Seconds(0)

    async def embed(self, text: str) -> Vector:
        """Embed one text."""
        return (await self.read(text)).vector

    async def read(self, text: str) -> ReadText:
        """Embed one text with its words' vectors."""
        if len(text) > 200:
            raise TextTooLong(text[:9])
        self.read_texts.append(text)
        words = [word.strip("?:,.").lower() for word in text.split()]
        numbers = [sum(_LETTERS.find(c) * 7**k for k, c in enumerate(word)) for word in words]
        rows = np.array(
            [np.random.default_rng(abs(n) + 1).standard_normal(32) for n in (0, *numbers, 0)],
            dtype=np.float32,
        )
        mean = rows.mean(axis=0)
        ids = [abs(number) % 60_000 for number in (0, *numbers, 0)]
        return ReadText(mean / np.linalg.norm(mean), to_bytes(pack(ids, rows)))

    async def close(self) -> None:
        """Release nothing."""


class BareEmbedder(WordEmbedder):
    """Gives no token vectors."""

    read = None  # type: ignore[assignment]

    async def embed(self, text: str) -> Vector:
        """Embed one text."""
        return (await WordEmbedder().read(text)).vector


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_bytes(gzip.compress(b"\n".join(msgspec.json.encode(row) for row in rows)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A group set that counts as FAQ, one of look-alikes, traps with kinds, and judged pairs."""
    asked = [{"text": w.format(t), "group": t} for t in _THINGS for w in _WAYS]
    write(tmp_path / "banking_tiny.group.jsonl.gz", [*asked, {"text": "x " * 150, "group": "x"}])
    write(
        tmp_path / "t2s_tiny.group.jsonl.gz",
        [{"text": f"Which courses are at {hour} {h}?", "group": f"{hour}{h}"}
         for hour in range(12) for h in ("am", "pm")],
    )  # fmt: skip
    reset = _WAYS[0].format("password")
    write(
        tmp_path / "fow_tiny.pairs.jsonl.gz",
        [
            {"a": reset, "b": reset.lower(), "same": 1, "category": "reworded"},
            {"a": reset, "b": _WAYS[0].format("router"), "same": 0, "category": "swap"},
            {"a": "", "b": reset, "same": 0, "category": "empty"},
        ],
    )
    write(
        tmp_path / "judged.pairs.jsonl.gz",
        [
            {"a": w.format(t), "b": v.format(u), "same": int(t == u)}
            for t in _THINGS
            for u in _THINGS[:3]
            for w, v in (_WAYS[:2], _WAYS[2:4])
        ],
    )
    return tmp_path


async def _report(
    folder: Path, *names: str, processes: int = 1, first_seed: int = 0
) -> SuiteReport:
    options = SuiteOptions(
        orders=2, budgets=(0.02, 0.05), names=names, processes=processes, first_seed=first_seed
    )
    return run(await read(folder, WordEmbedder(), options, print), options, print)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
async def test_a_suite_measures_every_kind_of_promise(folder: Path) -> None:
    """Streams under every rule, traps, pairs, timing; the same again over two processes."""
    report = await _report(folder)
    banking, look_alike = report.streams
    assert banking.asked == len(_THINGS) * len(_WAYS)
    assert look_alike.name == "t2s_tiny"
    assert {(one.rule, one.setting) for one in banking.outcomes if one.rule != "static"} == {
        (rule, share) for rule in ("per-entry", "cosine", "askonce") for share in (0.02, 0.05)
    }
    assert [one.setting for one in banking.per_request] == [0.005]
    assert [one.setting for one in banking.erring] == [0.02, 0.05]
    assert {row.name for row in report.traps} == {"fow_tiny", "judged"}
    assert [each.name for each in report.recalls] == ["judged"]
    assert report.timing is not None
    again = await _report(folder, processes=2)
    assert again.streams == report.streams
    assert again.recalls == report.recalls
    assert {one.about for one in verdicts(report)} >= {"budget kept", "FAQ, 2 %", "look-alike"}
    text = pages.render(report)
    assert "banking_tiny: 36 questions an order" in text
    assert " kept" in text.splitlines()[-1]


async def test_orders_can_begin_with_any_seed(folder: Path) -> None:
    """So a rule chosen on some orders can be proven on others."""
    first, later = [await _report(folder, "t2s_tiny", first_seed=seed) for seed in (0, 1)]
    (one,), (other,) = first.streams, later.streams
    assert [each.runs[1] for each in one.outcomes] == [each.runs[0] for each in other.outcomes]
    assert "by the seeds 1 to 2;" in pages.render(later)


async def test_an_interrupt_leaves_the_orders_that_are_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table is over them; where none is complete there is nothing to tell."""
    monkeypatch.setattr("askonce.lab.suite._SAY_EVERY", 0.0)
    options = SuiteOptions(orders=3, budgets=(0.02,), names=("t2s_tiny",), processes=1)
    measured = await read(folder, WordEmbedder(), options, print)

    def until(seed: int) -> Callable[[str], None]:
        def progress(line: str) -> None:
            if f"seed {seed}," in line:
                raise KeyboardInterrupt

        return progress

    report = run(measured, options, until(2))
    assert report.orders == 2
    assert {len(one.runs) for one in report.streams[0].outcomes} == {2}
    assert "by the seeds 0 to 1;" in pages.render(report)
    with pytest.raises(KeyboardInterrupt):
        run(measured, options, until(0))


async def test_the_page_holds_table_and_plots(folder: Path, tmp_path: Path) -> None:
    """PNG files, and one HTML page with the same pictures inside."""
    pytest.importorskip("matplotlib")
    report = await _report(folder, "t2s_tiny")
    assert pages.write(report, tmp_path / "out") == f"written to {tmp_path / 'out'}"
    assert (tmp_path / "out" / "t2s_tiny.png").read_bytes().startswith(b"\x89PNG")
    html = (tmp_path / "out" / "suite.html").read_text()
    assert "data:image/png;base64," in html
    assert "PASS" in html
    assert "http" not in html


async def test_without_matplotlib_the_table_stands_alone(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says in a plain word why it has no pictures."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    report = await _report(folder, "t2s_tiny")
    assert pages.write(report, tmp_path / "out").endswith(pages.NO_PLOTS)
    assert "No plots" in (tmp_path / "out" / "suite.html").read_text()


async def test_a_set_that_is_not_there_is_named(folder: Path) -> None:
    """A slip in --sets does not measure everything else."""
    with pytest.raises(ConfigError, match="no set nothing"):
        await _report(folder, "nothing")


async def test_readings_are_kept_between_runs(tmp_path: Path) -> None:
    """The second run reads nothing anew and gets the same; what is too long stays out."""
    texts = ["How are you?", "x " * 150, "How old are you?"]
    first, second = WordEmbedder(), WordEmbedder()
    found = await Readings(first, tmp_path, print).read("tiny", texts)
    again = await Readings(second, tmp_path, print).read("tiny", texts)
    assert list(found) == list(again) == [texts[0], texts[2]]
    assert first.read_texts == [texts[0], texts[2]]
    assert not second.read_texts
    for text, each in found.items():
        assert np.array_equal(each.tokens.rows, again[text].tokens.rows)
        assert np.array_equal(each.vector, again[text].vector)


async def test_an_embedder_without_token_vectors_will_do() -> None:
    """The verifier goes by the words alone."""
    found = await Readings(BareEmbedder(), None, print).read("tiny", ["How are you?"])
    assert not len(found["How are you?"].tokens.ids)


def test_recall_is_read_where_precision_still_holds() -> None:
    """The deepest threshold that is precise enough counts, and equal scores stand together."""
    scores = np.array([0.9, 0.8, 0.7, 0.6])
    same = np.array([True, False, True, True])
    assert pairwise.recall_at(scores, same, 0.75) == 1.0
    assert pairwise.recall_at(scores, same, 0.9) == pytest.approx(1 / 3)
    assert pairwise.recall_at(np.ones(4), same, 0.9) == 0.0


def test_runs_over_the_budget_are_those_beyond_chance() -> None:
    """Two wrong in 100 hits may be luck at 1 %; ten are not; no hits are no excess."""
    assert not exceeds(Tally(1000, 100, 2), 0.01, "hit")
    assert exceeds(Tally(1000, 100, 10), 0.01, "hit")
    assert not exceeds(Tally(1000, 100, 10), 0.01, "request")
    assert not exceeds(Tally(1000, 0, 0), 0.01, "hit")

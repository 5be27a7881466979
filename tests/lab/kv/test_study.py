"""The whole study on made traces."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec
import pytest

from askonce.errors import ConfigError
from askonce.lab.kv import pages, study, tables
from askonce.lab.kv.synthetic import agents, chat
from askonce.lab.kv.traces import Trace
from askonce.lab.kv.verdicts import regrets, worths

if TYPE_CHECKING:
    from pathlib import Path

SMALL = study.Options(
    gigabits=(1.0, 10.0, 100.0),
    local_tokens=300_000,
    budgets=(100_000_000_000,),
    routings=("round-robin",),
)


@pytest.fixture(scope="module")
def report() -> study.Report:
    """Of a chat service and a few agents."""
    return study.run([chat(1500), agents(12)], SMALL, lambda line: None)


@pytest.mark.slow
def test_the_gate_is_never_slower(report: study.Report) -> None:
    """On every trace, GPU and link the mean is within 5 % of the better rule."""
    found = regrets(report)
    assert len(found) == 2 * 2 * 3
    assert [one for one in found if not one.kept] == []


@pytest.mark.slow
def test_the_bound_is_a_bound(report: study.Report) -> None:
    """No policy finds more than the clairvoyant, and the table says what share it found."""
    for one in worths(report):
        assert max(one.lru.store, one.askonce.store) <= one.bound.store
    assert "of bound" in tables.render(report)
    assert "never slower: 12 of 12" in tables.verdict(report)


@pytest.mark.slow
def test_the_page_needs_no_other_file(report: study.Report, tmp_path: Path) -> None:
    """Plots stand inside it, and beside it as PNG."""
    pytest.importorskip("matplotlib")
    assert str(tmp_path) in pages.write(report, tmp_path)
    page = (tmp_path / "kv.html").read_text()
    assert page.count("data:image/png;base64,") == 3
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "hits.png",
        "bytes.png",
        "first-token.png",
    }


@pytest.mark.slow
def test_without_matplotlib_the_tables_stand_alone(
    report: study.Report, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says why there are no plots."""
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert pages.NO_PLOTS in pages.write(report, tmp_path)
    assert "No plots" in (tmp_path / "kv.html").read_text()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "gpt"}, "llama-8b"),
        ({"gpus": ("L4",)}, "L4"),
        ({"routings": ("random",)}, "round-robin"),
    ],
)
def test_what_is_unknown_is_refused(change: dict[str, object], named: str) -> None:
    """Before anything is simulated."""
    with pytest.raises(ConfigError, match=named):
        study.run([chat(10)], msgspec.structs.replace(SMALL, **change), lambda line: None)


def test_an_empty_trace_is_refused() -> None:
    """There is nothing to say of it."""
    with pytest.raises(ConfigError, match="no requests"):
        study.run([Trace(name="void", block_tokens=1)], SMALL, lambda line: None)


def test_progress_tells_what_is_left() -> None:
    """Once a second at most, with the time that the rest will take."""
    now = [0.0]
    said: list[str] = []
    progress = study.Progress(4, said.append, lambda: now[0])
    for step in range(3):
        progress.begin(f"step {step}")
        now[0] += 2.0
        progress.tick()
        progress.tick()
    assert said == ["0/4 step 0", "1/4 step 1 12 s left", "2/4 step 2 6 s left"]

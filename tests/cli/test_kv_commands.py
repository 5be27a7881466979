"""`askonce kv plan` and `askonce lab kv`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from askonce.cli import UNUSABLE, main

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
FLAGS = ["--layers", "32", "--kv-heads", "8", "--head-dim", "128"]


def test_a_plan_from_config_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder of a model is enough; the table has its reasons."""
    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    assert main(["kv", "plan", "--model-config", str(tmp_path), "--gpu", "A100"]) == 0
    said = capsys.readouterr().out
    assert "pays from" in said
    assert "131,072 bytes a token" in said


def test_a_plan_from_flags_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs read the same."""
    flags = [*FLAGS, "--parameters", "8", "--link", "100", "--dtype", "fp8", "--json"]
    assert main(["kv", "plan", *flags]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["bytes_per_token"] == {"fp8": 65_536}
    assert len(found["rows"]) == 1


def test_a_measured_curve_is_planned_with(capsys: pytest.CaptureFixture[str]) -> None:
    """Three numbers from one's own engine."""
    assert main(["kv", "plan", *FLAGS, "--prefill", "10", "1000", "0", "--link", "10"]) == 0
    said = capsys.readouterr().out
    assert "Prefill: as given" in said
    assert "estimate" not in said


@pytest.mark.parametrize(
    "flags",
    [
        [],
        [*FLAGS, "--link", "0"],
        [*FLAGS, "--round-trip", "nan"],
        [*FLAGS, "--shards", "0"],
        [*FLAGS, "--prefill", "1", "0", "0"],
        ["--model-config", "/nowhere/at/all"],
        ["--layers", "3"],
    ],
)
def test_a_plan_of_nonsense_is_refused(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line."""
    assert main(["kv", "plan", *flags]) == UNUSABLE
    assert capsys.readouterr().err.startswith("askonce: ")


def test_a_config_that_is_no_object_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the file."""
    (tmp_path / "config.json").write_text("[]")
    assert main(["kv", "plan", "--model-config", str(tmp_path / "config.json")]) == UNUSABLE
    assert "config.json" in capsys.readouterr().err


@pytest.mark.slow
def test_a_trace_is_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Tables on standard output, page and JSON where they were asked for."""
    rows = [
        {"timestamp": 1000 * at, "input_length": 2048, "output_length": 9, "hash_ids": [0, 1, 2, 3]}
        for at in range(50)
    ]
    trace = tmp_path / "chat.jsonl"
    trace.write_text("\n".join(map(json.dumps, rows)))
    out, report = tmp_path / "out", tmp_path / "report.json"
    flags = ["--gpu", "A100", "--link", "10", "--store", "10GB", "--routing", "round-robin"]
    files = ["--out", str(out), "--json", str(report)]
    assert main(["lab", "kv", str(trace), *flags, *files, "--limit", "40"]) == 0
    assert "never slower: 1 of 1" in capsys.readouterr().out
    assert (out / "kv.html").is_file()
    assert len(json.loads(report.read_text())["timed"]) == 3


@pytest.mark.slow
def test_made_traces_stand_in(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a trace, a chat service and agents are made up."""
    flags = ["--gpu", "H100", "--link", "100", "--routing", "prefix-hash", "--limit", "20"]
    assert main(["lab", "kv", *flags]) == 0
    assert "synthetic agents" in capsys.readouterr().out


@pytest.mark.parametrize(
    "flags",
    [["--replicas", "0"], ["--link", "-1"], ["--limit", "-1"], ["/nowhere.jsonl"], ["--gpu", "L4"]],
)
def test_a_study_of_nonsense_is_refused(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before it begins."""
    assert main(["lab", "kv", *flags]) == UNUSABLE
    assert capsys.readouterr().err.startswith("askonce: ")


def test_a_size_is_spelled_with_its_unit(capsys: pytest.CaptureFixture[str]) -> None:
    """What is no size is refused by its flag."""
    with pytest.raises(SystemExit):
        main(["lab", "kv", "--store", "much"])
    assert "--store" in capsys.readouterr().err

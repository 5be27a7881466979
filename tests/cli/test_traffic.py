"""`askonce evaluate --log` and `askonce tune` end with the right words and exit codes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.lab.traffic.logs import call, faq, write

from askonce.cli import main, traffic
from askonce.cli.serve import banner, try_settings
from askonce.config import Config, RecordConfig, ServerConfig
from askonce.errors import ConfigError
from askonce.settings import load_config
from askonce.testing.embedders import TokenEmbedder


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every command works in a home of its own, without an embedder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "false")
    return tmp_path


def test_a_log_is_replayed(capsys: pytest.CaptureFixture[str]) -> None:
    """With tables on standard output, JSON in a file, and money where prices are told."""
    write(Path("log.jsonl"), [call("a"), call("a", at=1.0), 7])
    command = ["evaluate", "--log", "log.jsonl", "--json", "r.json", "--prompt-price", "3"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "2 calls in 3 lines" in out
    assert "not_a_json_object  log.jsonl:3" in out
    assert "$" in out
    assert json.loads(Path("r.json").read_text())["calls"] == 2


def test_a_log_is_tuned_into_settings_that_load(capsys: pytest.CaptureFixture[str]) -> None:
    """The file that `--toml` names can be given to `--config`."""
    write(Path("log.jsonl"), [call("a", at=7000.0 * at) for at in range(40)])
    assert main(["tune", "log.jsonl", "--toml", "new.toml", "--json", "r.json"]) == 0
    out = capsys.readouterr().out
    assert "*  exact.ttl" in out
    assert load_config(Path("new.toml"), {}).exact.ttl == 3 * 86400.0
    assert json.loads(Path("r.json").read_text())["advice"]


@pytest.mark.parametrize("command", [["tune"], ["evaluate", "--log"]])
def test_a_log_without_a_call_is_a_failure(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Why each line was left out is told all the same."""
    Path("log.jsonl").write_bytes(b"{}\n\xff\xfe\n")
    assert main([*command, "log.jsonl"]) == 1
    told = capsys.readouterr()
    assert "unknown_shape" in told.out
    assert told.err == "askonce: there is no call to replay in this log\n"


@pytest.mark.parametrize("command", [["tune"], ["evaluate", "--log"]])
def test_a_log_that_is_not_there_cannot_be_used(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Named, with the reason."""
    assert main([*command, "gone.jsonl"]) == 2
    assert "gone.jsonl cannot be read" in capsys.readouterr().err


def test_the_server_says_that_it_records(home: Path) -> None:
    """And where; a file that cannot be written stops it before it starts."""
    home.mkdir(exist_ok=True)
    server = ServerConfig(data_dir=str(home))
    config = Config(server=server, record=RecordConfig(path="calls.jsonl"))
    assert f"record    {home / 'calls.jsonl'}: WARNING" in "\n".join(banner(config))
    asyncio.run(try_settings(config))
    assert (home / "calls.jsonl").stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match=r"record\.path"):
        asyncio.run(try_settings(Config(server=server, record=RecordConfig(path="no/such"))))


def test_a_price_must_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Flags are checked as ever."""
    with pytest.raises(SystemExit, match="2"):
        main(["tune", "x", "--prompt-price", "-1"])
    assert "invalid price" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--limit", "--questions"])
def test_a_bound_is_no_less_than_nothing(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody is told that the log has no calls where none were asked for."""
    with pytest.raises(SystemExit, match="2"):
        main(["tune", "x", flag, "-1"])
    assert "invalid number" in capsys.readouterr().err


@pytest.mark.slow
def test_with_an_embedder_pages_are_written(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plots, the page, and embeddings kept for the next run."""
    pytest.importorskip("matplotlib")

    async def opened(config: Config, **kit: Any) -> TokenEmbedder:
        return TokenEmbedder(dim=128)

    monkeypatch.setattr("askonce.embedders.onnx.OnnxEmbedder.open", opened)
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "true")
    write(Path("log.jsonl"), faq(60))
    kept = ["--cache", "kept", "--questions", "50"]
    replay = ["evaluate", "--log", "log.jsonl", "--out", "page", "--budget", "0.01", *kept]
    assert main([*replay, "--floor", "0.9"]) == 0
    assert main(["tune", "log.jsonl", "--out", "page", *kept]) == 0
    assert Path("page/log.html").exists()
    assert Path("page/tune.html").exists()
    assert len(list(Path("kept").iterdir())) == 1
    assert "written to page" in capsys.readouterr().err


def test_without_an_embedder_the_rest_is_replayed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is said."""
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "true")
    monkeypatch.setenv("ASKONCE_SEMANTIC__MODEL", "gone.onnx")
    write(Path("log.jsonl"), [call("a"), call("a", at=1.0)])
    assert main(["evaluate", "--log", "log.jsonl"]) == 0
    told = capsys.readouterr()
    assert "nothing is replayed by meaning" in told.err
    assert "there is no embedder" in told.out
    assert traffic.NOTHING == 1

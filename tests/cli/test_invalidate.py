"""`askonce invalidate`."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from askonce.cli import main


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A home of its own for every command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "false")
    return tmp_path / "askonce"


def test_what_is_taken_back_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Selector, who, why."""
    Path("prompt.txt").write_text("Be brief.\n")
    assert main(["invalidate", "--model", "m", "--why", "new weights", "--yes"]) == 0
    assert "took back all answers of model 'm'" in capsys.readouterr().out
    flags = ["--prompt", "prompt.txt", "--older-than", "2h", "--tag", "red"]
    assert main(["invalidate", *flags, "--yes"]) == 0
    assert main(["invalidate", "--all", "--yes"]) == 0
    capsys.readouterr()
    assert main(["invalidate", "--list"]) == 0
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.endswith("new weights")
    assert "prompt '" in second
    assert "from before" in second
    assert "all answers  by" in third


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "say which answers"),
        (["--key", "short"], "a key has 64 hexadecimal digits"),
        (["--tenant", "0123456789abcdef"], "a tenant has 64 hexadecimal digits"),
        (["--older-than", "soon"], "is no age"),
        (["--prompt", "missing.txt"], "cannot be read"),
        (["--like", "What is the refund policy?"], "by meaning"),
        (["--model", "m"], "say --yes"),
        (["--model", "m", "--dry-run", "--yes"], "needs --like"),
        (["--all", "--dry-run", "--yes"], "needs --like"),
        (["--like", "refunds", "--model", "m", "--yes"], "not both"),
    ],
)
def test_bad_flags_are_told(
    flags: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In one line, and nothing is taken back."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False, raising=False)
    assert main(["invalidate", *flags]) == 2
    assert said in capsys.readouterr().err
    assert main(["invalidate", "--list"]) == 0
    assert capsys.readouterr().out == "nothing was taken back so far\n"


def test_a_memory_log_is_the_servers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command cannot reach it."""
    monkeypatch.setenv("ASKONCE_EXACT__STORE", "memory")
    assert main(["invalidate", "--all", "--yes"]) == 2
    assert "admin API" in capsys.readouterr().err


def test_it_asks_first(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything but yes leaves everything."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "")
    assert main(["invalidate", "--model", "m"]) == 1
    assert "nothing was taken back" in capsys.readouterr().out

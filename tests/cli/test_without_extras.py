"""The commands where no extra is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
from askonce.cli import main
raise SystemExit(main(sys.argv[1:]))
"""


def absent() -> str:
    """Modules of all that extras bring and the package itself does not need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    def names(listed: list[str]) -> set[str]:
        return {re.split(r"[\[<>=;, ]", each)[0] for each in listed}

    extra = {name for each in project["optional-dependencies"].values() for name in names(each)}
    only = extra - names(project["dependencies"]) | {"hiredis"}
    return ",".join(name.replace("-", "_") for name in only)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        (["serve", "--port", "0"], 2, "install askonce[engine]"),
        (["doctor", "--upstream", "http://127.0.0.1:9/v1"], 1, "install askonce[semantic]"),
        (["stats", "--port", "1"], 0, "no AskOnce runs"),
        (["serve", "--config", "redis.toml", "--port", "0"], 2, "install askonce[redis]"),
        (["invalidate", "--list"], 0, "nothing was taken back"),
        (["audit", "list"], 2, "trust.enabled is false"),
        (["kv", "stat", "--url", "redis://127.0.0.1:9"], 2, "install askonce[kv]"),
        (["tune", "calls.jsonl"], 0, "install askonce[semantic]"),
    ],
)
def test_every_command_starts_and_names_what_it_lacks(
    flags: list[str], code: int, said: str, tmp_path: Path
) -> None:
    """In plain words, never as a traceback."""
    (tmp_path / "calls.jsonl").write_text(
        '{"messages": [{"role": "user", "content": "Hi"}], "output": "Hello", "model": "m"}\n'
    )
    (tmp_path / "redis.toml").write_text(
        '[exact]\nstore = "redis://127.0.0.1:9"\n[[upstream]]\nurl = "http://127.0.0.1:9/v1"\n'
    )
    homes = {"XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", RUN, absent(), *flags],
        env={**os.environ, **homes},
        cwd=tmp_path,
        text=True,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert said in ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr

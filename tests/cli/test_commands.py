"""Commands end with the right words and exit codes."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from askonce import __version__
from askonce.cli import entries, main
from askonce.clock import SystemClock
from askonce.ports import Owner, Put, SupportsPutMany
from askonce.settings import server_secret
from askonce.stores.urls import open_store
from askonce.testing import RecordingSink
from askonce.units import Seconds

QUESTION = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Every command works in a home of its own, beside no running server."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ASKONCE_SERVER__PORT", "1")
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "false")
    return tmp_path / "askonce"


def written(name: str, content: object) -> str:
    """Write a JSON file into the working directory."""
    Path(name).write_text(json.dumps(content))
    return name


def fill(directory: Path) -> None:
    """Put two entries into the store of a data directory, one of them tagged."""

    async def work() -> None:
        store = open_store(
            "sqlite", clock=SystemClock(), sink=RecordingSink(), max_bytes=10**6, data_dir=directory
        )
        await store.put(b"a" * 32, b"x", ttl=Seconds(60), tags=["t"])
        assert isinstance(store, SupportsPutMany)
        owner = Owner("00ff00ff00ff00ff", "notes")
        await store.put_many([Put(b"b" * 32, b"y", Seconds(60), (), owner)])
        await store.close()

    directory.mkdir(exist_ok=True)
    asyncio.run(work())


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` prints the version."""
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"askonce {__version__}\n"


def test_a_wrong_setting_is_an_unusable_command(capsys: pytest.CaptureFixture[str]) -> None:
    """A setting that cannot be gives one plain line and exit code 2."""
    assert main(["stats", "--port", "many"]) == 2
    assert capsys.readouterr().err == (
        "askonce: --port: server.port is 'many', but must be a whole number from 0 to 65535\n"
    )


def test_an_interrupt_ends_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C gives the shell's exit code for it and no traceback."""

    def interrupt(_config: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(entries, "stats", interrupt)
    assert main(["stats"]) == 130


def test_one_key_is_printed(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """The key of a file is 64 hexadecimal digits, the same each time; nothing is made for it."""
    name = written("a.json", QUESTION)
    assert main(["key", name]) == 0
    assert main(["key", name]) == 0
    out, err = capsys.readouterr()
    assert "no server has made its secret" in err
    assert not home.exists()
    first, second = out.splitlines()
    assert first == second
    assert len(first.split()[0]) == 64


def test_a_key_is_made_with_the_servers_secret(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a server has run its secret is used; callers who share all need none."""
    name = written("a.json", QUESTION)
    main(["key", name])
    server_secret(home)
    assert main(["key", name]) == 0
    out, err = capsys.readouterr()
    assert len(set(out.splitlines())) == 2
    assert err.count("no server has made") == 1
    monkeypatch.setenv("ASKONCE_TENANTS__SCOPE", "shared")
    assert main(["key", name, "--data-dir", "nowhere"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("floor", ["1.5", "-0.1", "nan", "much"])
def test_a_floor_that_no_similarity_has_is_refused(
    capsys: pytest.CaptureFixture[str], floor: str
) -> None:
    """Evaluate takes floors from 0 to 1."""
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "x", f"--floor={floor}"])
    assert f"invalid similarity value: '{floor}'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "flag", ["--orders=0", "--orders=x", "--first-seed=-1", "--budget=0", "--budget=0.6"]
)
def test_a_suite_without_orders_or_budget_is_refused(
    capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    """At least one order, and a budget above 0 and at most a half."""
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", "--suite", ".", flag])
    assert "invalid" in capsys.readouterr().err


def test_a_suite_that_is_nowhere_is_told_where_it_was_sought(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bare name is a folder here, or a set of sets in the place for data."""
    monkeypatch.setenv("ASKONCE_DATA", "data")
    assert main(["evaluate", "--suite", "dev"]) == 2
    assert "data/dev/semantic" in capsys.readouterr().err
    assert main(["evaluate", "--suite", "no/dev"]) == 2
    assert "no folder no/dev" in capsys.readouterr().err
    Path("data/dev/semantic").mkdir(parents=True)
    assert main(["evaluate", "--suite", "dev"]) == 2
    assert "no file under data" in capsys.readouterr().err


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="threads are counted by the kernel"
)
@pytest.mark.parametrize("arguments", [["evaluate", "--suite", "x"], ["tune", "x"], ["stats"]])
def test_commands_compute_with_one_thread(arguments: list[str]) -> None:
    """More would wait for one another, spinning, without the low priority of learning."""
    script = (
        "import os\nfrom askonce.cli import main\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        f"main({arguments})\n"
        "import numpy\nnumpy.ones((600, 600)) @ numpy.ones((600, 600))\n"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    environ = {name: value for name, value in os.environ.items() if "NUM_THREADS" not in name}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[-1] == "0"


def test_evaluate_wants_something_to_evaluate(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither sets nor a suite: a plain word."""
    assert main(["evaluate"]) == 2
    assert "--suite" in capsys.readouterr().err


def test_what_tells_two_requests_apart_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Two files that differ give two keys, the differing fields and exit code 1."""
    other = {**QUESTION, "messages": [{"role": "user", "content": "ho"}], "seed": 1}
    assert main(["key", written("a.json", QUESTION), written("b.json", other)]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].split()[0] != out[1].split()[0]
    assert out[2:] == ["differs: $.messages[0].content", "differs: $.seed", "the keys differ"]


def test_two_spellings_have_one_key(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another order of the same fields, from standard input, is the same key."""
    turned = json.dumps(dict(reversed(QUESTION.items())), indent=2)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(turned.encode())))
    assert main(["key", written("a.json", QUESTION), "-"]) == 0
    assert capsys.readouterr().out.endswith("the keys are equal\n")


def test_a_key_belongs_to_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    """Another credential, namespace or upstream gives another key."""
    name = written("a.json", QUESTION)
    for more in (
        [],
        ["--authorization", "Bearer x"],
        ["--namespace", "n"],
        ["--upstream", "http://h/v1"],
    ):
        assert main(["key", name, *more]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 4


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "cannot be read: No such file"), ("[", "not a chat completion request")],
)
def test_an_unusable_request_is_told(
    capsys: pytest.CaptureFixture[str], content: str | None, words: str
) -> None:
    """A file that is missing or no request gives one plain line."""
    if content is not None:
        Path("a.json").write_text(content)
    assert main(["key", "a.json"]) == 2
    assert words in capsys.readouterr().err


def test_stats_of_a_stopped_server_come_from_its_files(
    capsys: pytest.CaptureFixture[str], home: Path
) -> None:
    """Without a server the store's own figures are shown."""
    fill(home)
    assert main(["stats"]) == 0
    out = capsys.readouterr().out
    assert "no AskOnce runs at 127.0.0.1:1" in out
    assert "exact     2 entries" in out
    assert "semantic  off" in out
    assert re.search(r"notes +00ff00ff00ff00ff +1 +0\.0\n$", out)


def test_a_key_without_an_upstream_hinders_only_serving(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key for an upstream that nobody names stops serve, which names the variable."""
    monkeypatch.setenv("ASKONCE_UPSTREAM_API_KEY", "hunter2")
    assert main(["stats"]) == 0
    assert main(["serve"]) == 2
    assert main(["doctor"]) == 1
    out, err = capsys.readouterr()
    assert err.startswith("askonce: ASKONCE_UPSTREAM_API_KEY is set, but no upstream")
    assert "ASKONCE_UPSTREAM_API_KEY is set, but no upstream" in out
    assert "hunter2" not in out + err


def test_clear_removes_all_or_by_tag(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    """A tag removes what carries it; without one all goes."""
    fill(home)
    assert main(["clear", "--yes", "--tag", "t"]) == 0
    assert main(["clear", "--yes", "--exact"]) == 0
    assert main(["clear", "--yes"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "removed 1 entry tagged 't'",
        "removed 1 exact entry",
        "removed 0 exact entries",
        "semantic entries were left: the semantic tier is off",
    ]


def test_clear_asks_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Where a person can answer, clear does what they say; elsewhere it wants --yes."""
    fill(home)
    assert main(["clear"]) == 2
    assert "say --yes" in capsys.readouterr().err
    asked: list[str] = []
    answers = iter(["n", "y", "yes"])

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setattr("builtins.input", answer)
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    assert main(["clear"]) == 1
    assert main(["clear", "--tag", "t"]) == 0
    assert main(["clear", "--exact"]) == 0
    assert asked == [
        "Remove all entries of both tiers? [y/N] ",
        "Remove all entries tagged 't'? [y/N] ",
        "Remove all entries of the exact tier? [y/N] ",
    ]
    assert capsys.readouterr().out.splitlines() == [
        "nothing was removed",
        "removed 1 entry tagged 't'",
        "removed 1 exact entry",
    ]


def test_a_store_in_memory_is_not_cleared_from_outside(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clear says that only a restart empties another process's memory."""
    monkeypatch.setenv("ASKONCE_EXACT__STORE", "memory")
    assert main(["clear", "--yes"]) == 2
    assert "restart the server" in capsys.readouterr().err


@pytest.mark.slow
def test_evaluate_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A small set is scored at the floors that were asked for."""
    rows = [
        {"a": a, "b": b, "same": same}
        for a, b, same in (("How old is he?", "What is his age?", True), ("Hi", "Bye", False))
    ]
    Path("small.pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["evaluate", "small.pairs.jsonl", "--floor", "0.5"]) == 0
    assert "askonce .5" in capsys.readouterr().out
    assert main(["evaluate", "small.pairs.jsonl", "--json", "report.json"]) == 0
    report = json.loads(Path("report.json").read_text())
    assert [each["name"] for each in report["sets"]] == ["small"]


@pytest.mark.slow
def test_evaluate_replays_a_suite(capsys: pytest.CaptureFixture[str]) -> None:
    """The shipped model, one tiny stream: table, page and JSON."""
    texts = (("How old is he?", 1), ("What is his age?", 1), ("Hi", 2), ("Bye", 3))
    rows = [{"text": text, "group": group} for text, group in texts]
    Path("tiny.group.jsonl").write_text("\n".join(map(json.dumps, rows)))
    flags = ["--orders", "1", "--budget", "0.05", "--out", "out", "--json", "report.json"]
    assert main(["evaluate", "--suite", ".", *flags]) == 0
    out, err = capsys.readouterr()
    assert re.search(r"PASS  budget kept +pooled <= 5 %", out)
    assert "written to out" in err
    assert Path("out/suite.html").exists()
    assert json.loads(Path("report.json").read_text())["orders"] == 1

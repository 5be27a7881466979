"""The doctor names what is wrong and how to mend it."""

from __future__ import annotations

import errno
import json
import os
import socket
import time
from email.utils import formatdate
from pathlib import Path

import msgspec
import pytest

from askonce.cli import checks, main
from askonce.cli.checks import Finding
from askonce.cli.doctor import report
from askonce.cli.ports import holder_of
from askonce.config import (
    Config,
    EngineConfig,
    ExactConfig,
    SemanticConfig,
    ServerConfig,
    UpstreamConfig,
)
from askonce.testing.answers import Reply
from askonce.testing.engine import FakeEngine

pytestmark = pytest.mark.anyio


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """A configuration in a directory of its own, with nothing that loads a model."""
    return Config(
        server=ServerConfig(data_dir=str(tmp_path / "data"), port=1),
        semantic=SemanticConfig(enabled=False),
    )


def changed(config: Config, **sections: object) -> Config:
    """The configuration with other sections."""
    return msgspec.structs.replace(config, **sections)


async def test_a_data_directory_that_can_be_written_is_right(config: Config) -> None:
    """The directory is made, tried and left empty."""
    config = changed(config, exact=ExactConfig(disk_bytes=0))
    (finding,) = await checks.check_data_dir(config)
    assert finding.state == "ok"
    assert list(Path(config.server.data_dir).iterdir()) == []


async def test_a_probe_that_fails_is_private_and_leaves_nothing(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk the doctor says so, and neither a file nor an open directory stays."""
    directory = Path(config.server.data_dir)
    modes: list[int] = []

    def full(_descriptor: int, _data: bytes) -> int:
        modes.extend(each.stat().st_mode & 0o777 for each in directory.iterdir())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    finding = checks._data_dir(config)
    assert (finding.state, "No space left" in finding.says) == ("fail", True)
    assert modes == [0o600]
    assert list(directory.iterdir()) == []
    assert directory.stat().st_mode & 0o777 == 0o700


async def test_a_data_directory_below_a_file_is_wrong(config: Config, tmp_path: Path) -> None:
    """A directory that cannot be made fails with a mend."""
    (tmp_path / "data").touch()
    (finding,) = await checks.check_data_dir(config)
    assert (finding.state, bool(finding.mend)) == ("fail", True)


async def test_a_full_disk_is_a_warning(config: Config) -> None:
    """Less room than the store may take is told."""
    (finding,) = await checks.check_data_dir(changed(config, exact=ExactConfig(disk_bytes=10**18)))
    assert finding.state == "warn"
    assert "lower exact.disk_bytes" in finding.mend


async def test_a_taken_port_names_its_holder(config: Config) -> None:
    """A port that another program has fails; a free one is right."""
    (finding,) = await checks.check_port(config)
    assert finding.state == "ok"
    async with FakeEngine(otherwise=Reply(pieces=(b"{}",))) as other:
        server = msgspec.structs.replace(config.server, port=other.port)
        (finding,) = await checks.check_port(changed(config, server=server))
    assert finding.state == "fail"
    assert f"(pid {os.getpid()})" in finding.says


async def test_a_running_askonce_is_no_conflict(config: Config) -> None:
    """A port that AskOnce itself has is right."""
    async with FakeEngine(otherwise=Reply(pieces=(b"askonce_build_info 1",))) as other:
        server = msgspec.structs.replace(config.server, port=other.port)
        (finding,) = await checks.check_port(changed(config, server=server))
    assert finding.state == "ok"


@pytest.mark.parametrize(
    ("status", "key", "state", "words"),
    [
        (200, "", "ok", "answers 200"),
        (401, "", "ok", "callers bring their own credential"),
        (403, "k", "fail", "refuses upstream.api_key"),
        (404, "", "warn", "answers 404"),
        (500, "", "warn", "answers 500"),
    ],
)
async def test_an_upstreams_answer_is_explained(
    config: Config, status: int, key: str, state: str, words: str
) -> None:
    """Each status of GET /models is told in plain words."""
    async with FakeEngine(otherwise=Reply(status=status, pieces=(b"{}",))) as engine:
        upstream = (UpstreamConfig(url=engine.url, api_key=key),)
        (finding,) = await checks.check_upstreams(changed(config, upstream=upstream))
    assert (finding.state, words in finding.says) == (state, True)


async def test_an_upstream_that_is_down_is_told(config: Config) -> None:
    """An address where nobody listens fails with a mend."""
    upstream = (UpstreamConfig(url="http://127.0.0.1:1/v1"),)
    (finding,) = await checks.check_upstreams(changed(config, upstream=upstream))
    assert finding.state == "fail"
    assert "must end in /v1" in finding.mend


async def test_a_clock_that_is_off_is_told(config: Config) -> None:
    """An upstream whose date is far away gives a warning, a close one does not."""
    for off, states in ((3600, ["ok", "warn"]), (1, ["ok"])):
        date = (b"date", formatdate(time.time() - off, usegmt=True).encode())
        async with FakeEngine(otherwise=Reply(headers=(date,), pieces=(b"{}",))) as engine:
            upstream = (UpstreamConfig(url=engine.url),)
            found = await checks.check_upstreams(changed(config, upstream=upstream))
        assert [each.state for each in found] == states


async def test_an_impossible_clock_fails(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock before the first release cannot be right."""
    assert (await checks.check_clock(config))[0].state == "ok"
    monkeypatch.setattr(checks, "FIRST_RELEASE", time.time() + 60)
    assert (await checks.check_clock(config))[0].state == "fail"


async def test_the_embedded_model_is_checked_by_digest(
    config: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole model is right, a changed one fails, a missing one is named."""
    (finding,) = await checks.check_engine(config)
    assert finding.state == "ok"
    monkeypatch.setattr(checks, "MODEL_SHA256", "0")
    (finding,) = await checks.check_engine(config)
    assert "is damaged" in finding.says
    (finding,) = await checks.check_engine(changed(config, engine=EngineConfig(model="/no.gguf")))
    assert "/no.gguf" in finding.says
    upstream = (UpstreamConfig(url="http://h/v1"),)
    assert await checks.check_engine(changed(config, upstream=upstream)) == []


async def test_a_store_is_opened(config: Config) -> None:
    """A store that opens is right, one that cannot is told, one that is off is not opened."""
    (finding,) = await checks.check_store(config)
    assert finding.says == "0 entries, 0.0 MB"
    (finding,) = await checks.check_store(changed(config, exact=ExactConfig(store="redis://h")))
    assert finding.state == "fail"
    (finding,) = await checks.check_store(changed(config, exact=ExactConfig(enabled=False)))
    assert finding.says == "the exact tier is off"


@pytest.mark.slow
async def test_the_embedder_is_tried(config: Config) -> None:
    """The real embedder works, a missing model is told, too short a deadline is told."""
    on = SemanticConfig(deadline=30.0)
    found, index = await checks.check_semantic(changed(config, semantic=on))
    assert (found.state, "to embed a question" in found.says) == ("ok", True)
    assert (index.state, "local, 0 entries" in index.says) == ("ok", True)
    slow = SemanticConfig(deadline=1e-9)
    for finding in await checks.check_semantic(changed(config, semantic=slow)):
        assert "slower than its deadline" in finding.says
    gone = SemanticConfig(deadline=30.0, index="qdrant://:secret@127.0.0.1:9")
    _, index = await checks.check_semantic(changed(config, semantic=gone))
    assert (index.part, index.state, "start its server" in index.mend) == ("index", "warn", True)
    assert "secret" not in index.says
    missing = SemanticConfig(model="/no.onnx")
    (finding,) = await checks.check_semantic(changed(config, semantic=missing))
    assert (finding.state, "it is off" in finding.says) == ("warn", True)
    assert (await checks.check_semantic(config))[0].says == "the semantic tier is off"


def test_findings_are_printed_with_their_mend() -> None:
    """A finding is one line, and what mends it the next."""
    lines = list(report([Finding("port", "fail", "taken", "stop it"), Finding("data", "ok", "/d")]))
    assert lines == ["fail  port           taken", f"{'':20} -> stop it", "ok    data           /d"]


def test_the_command_says_whether_all_is_well(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 0 when nothing fails, 1 when something does, and JSON on demand."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("ASKONCE_SEMANTIC__ENABLED", "false")
    assert main(["doctor", "--json", "--port", "1"]) == 0
    parts = [each["part"] for each in json.loads(capsys.readouterr().out)]
    assert parts == [
        "versions",
        "configuration",
        "data",
        "port",
        "engine",
        "store",
        "semantic",
        "clock",
    ]
    Path("askonce.toml").write_text("[server]\nprt = 1")
    assert main(["doctor"]) == 1
    assert "did you mean 'port'?" in capsys.readouterr().out


def test_absent_packages_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is not installed is named as absent."""
    monkeypatch.setattr(checks, "PACKAGES", ("no-such-package",))
    assert checks.check_versions().says.endswith("no-such-package absent")


def test_a_port_without_a_holder_has_no_name(tmp_path: Path) -> None:
    """Where the system tells nothing, nothing is said."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert f"(pid {os.getpid()})" in holder_of(port)
        assert holder_of(port, tmp_path) == ""
    net = tmp_path / "net"
    net.mkdir()
    (net / "tcp").write_text("head\n 0: 0100007F:0050 0 0A 0 0 0 0 0 77\n")
    assert holder_of(80, tmp_path) == ""

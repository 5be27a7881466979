"""`askonce serve` starts, says what runs, answers, and ends when told."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.servers.process import free_port

from askonce.cli import main
from askonce.cli.serve import banner, listen, logging_of, shown, span
from askonce.config import (
    Config,
    ExactConfig,
    SemanticConfig,
    ServerConfig,
    TenantConfig,
    UpstreamConfig,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUESTION = {
    "model": "smollm2-135m-instruct",
    "messages": [{"role": "user", "content": "Name the capital of France."}],
    "temperature": 0,
    "max_tokens": 16,
}


@contextmanager
def serving(home: Path, *flags: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server in a home of its own, once it listens: its address and its process."""
    environ = {**os.environ, "XDG_DATA_HOME": str(home), "ASKONCE_SEMANTIC__ENABLED": "false"}
    command = [sys.executable, "-m", "askonce", "serve", "--port", "0", *flags]
    with subprocess.Popen(
        command, env=environ, cwd=home, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"listens at (http://\S+)/v1", line)
        try:
            assert found, f"{line}{process.stderr.read() if process.stderr else ''}"
            yield found[1], process
        finally:
            process.kill()


def ask(url: str, body: object = None) -> tuple[dict[str, str], Any]:
    """Headers and JSON of one answer."""
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data), timeout=30) as answer:
        return dict(answer.headers), json.load(answer)


@pytest.mark.slow
def test_the_embedded_model_is_asked_once(tmp_path: Path) -> None:
    """With nothing configured a question is computed, then comes from the cache; TERM ends all."""
    with serving(tmp_path) as (url, process):
        marks = [ask(f"{url}/v1/chat/completions", QUESTION)[0]["x-cache"] for _ in range(2)]
        models = ask(f"{url}/v1/models")[1]["data"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    assert marks == ["MISS", "HIT"]
    assert models[0]["id"] == "smollm2-135m-instruct"


@pytest.mark.slow
def test_several_workers_serve_one_address(tmp_path: Path) -> None:
    """Two workers start, answer, share their figures and end when interrupted."""
    flags = ("--workers", "2", "--upstream", "http://127.0.0.1:1/v1")
    with serving(tmp_path, *flags) as (url, process):
        assert ask(f"{url}/readyz")[1]["status"] == "ready"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.slow
def test_operators_have_a_port_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the token of the data directory, in every worker."""
    port = free_port()
    monkeypatch.setenv("ASKONCE_ADMIN__PORT", str(port))
    flags = ("--workers", "2", "--upstream", "http://127.0.0.1:1/v1")
    with serving(tmp_path, *flags) as (url, process):
        ask(f"{url}/readyz")
        token = (tmp_path / "askonce" / "admin-token").read_text()
        stats = urllib.request.Request(f"http://127.0.0.1:{port}/askonce/v1/stats")
        stats.add_header("Authorization", f"Bearer {token}")
        with urllib.request.urlopen(stats, timeout=30) as answer:
            assert json.load(answer)["blind"] is False
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.slow
def test_workers_end_with_a_server_that_is_killed(tmp_path: Path) -> None:
    """After a kill of the server no worker lives and its port is free again."""
    flags = ("--workers", "2", "--upstream", "http://127.0.0.1:1/v1")
    with serving(tmp_path, *flags) as (url, process):
        ask(f"{url}/readyz")
        process.kill()
        assert process.stdout is not None
        process.stdout.read()  # ends when nobody is left who could write
    listen("127.0.0.1", int(url.rpartition(":")[2])).close()


def test_a_taken_port_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A port that is taken gives one plain line that names the holder, and exit code 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with listen("127.0.0.1", 0) as sock:
        port = str(sock.getsockname()[1])
        assert main(["serve", "--port", port]) == 2
    line = f"askonce: port {port} is taken by "
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"EXACT__STORE": "mongo://h"}, "no store is known by 'mongo'"),
        ({"SERVER__DATA_DIR": "file/below"}, "cannot be used: Not a directory"),
        ({"SERVER__DATA_DIR": "damaged"}, "damaged/secret is damaged"),
        ({"UPSTREAM_URL": "http://h:x/v1"}, "the url must look like"),
        ({"UPSTREAM_URL": "http://h/v1", "UPSTREAM_API_KEY": "\u00e9"}, "no header can carry"),
    ],
)
def test_settings_that_cannot_be_served_are_told_first(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variables: dict[str, str],
    words: str,
) -> None:
    """Before the banner and before a model is loaded: one plain line and exit code 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "file").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "secret").write_text("zz")
    for name, value in variables.items():
        monkeypatch.setenv(f"ASKONCE_{name}", value)
    assert main(["serve", "--port", "0"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), words in err) == ("", 1, True), err


@pytest.mark.slow
def test_a_server_that_cannot_start_is_a_failure(tmp_path: Path) -> None:
    """What only the start itself can find ends with exit code 1."""
    script = (
        "from askonce.cli import main, serve; serve.APPLICATION = 'askonce.gateway.service:absent';"
        "raise SystemExit(main(['serve', '--port', '0', '--upstream', 'http://h/v1']))"
    )
    command = [sys.executable, "-c", script]
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    ended = subprocess.run(command, env=environ, cwd=tmp_path, check=False, capture_output=True)
    assert ended.returncode == 1


def test_an_address_of_another_machine_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An address that is not this machine's gives one plain line."""
    monkeypatch.chdir(tmp_path)
    assert main(["serve", "--host", "192.0.2.1"]) == 2
    assert "cannot listen at 192.0.2.1:8400" in capsys.readouterr().err


def test_the_banner_tells_what_runs_and_no_secret() -> None:
    """Address, upstreams, tiers, sharing and data are told; keys are not."""
    config = Config(
        server=ServerConfig(host="::1", port=5, data_dir="/d"),
        upstream=(
            UpstreamConfig(url="http://a/v1", api_key="hunter2"),
            UpstreamConfig(url="http://b/v1", name="b", models=("x*", "y")),
        ),
        exact=ExactConfig(enabled=False),
        semantic=SemanticConfig(ttl=90.0),
        tenants=TenantConfig(scope="shared"),
    )
    lines = list(banner(config))
    assert lines[0].endswith("listens at http://[::1]:5/v1")
    assert lines[1:] == [
        "  upstream  http://a/v1",
        "  upstream  b at http://b/v1 for x*, y",
        "  exact     off",
        "  semantic  on, for 90 s, from similarity 0.97, local",
        "  tenants   all share answers",
        "  data      /d",
    ]


@pytest.mark.parametrize(
    ("seconds", "said"), [(86400.0, "1 d"), (7200.0, "2 h"), (60.0, "1 min"), (61.5, "61.5 s")]
)
def test_a_life_is_said_as_people_do(seconds: float, said: str) -> None:
    """Whole units are used where they fit."""
    assert span(seconds) == said


def test_requests_are_logged_where_asked_for() -> None:
    """The access log is off by default."""
    assert logging_of(Config())["loggers"]["askonce.access"]["level"] == "WARNING"
    on = Config(server=ServerConfig(access_log=True))
    assert logging_of(on)["loggers"]["askonce.access"]["level"] == "INFO"


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("sqlite", "sqlite"),
        ("redis://:hunter2@cache:6379/0", "redis://cache:6379/0"),
        ("rediss://me:hunter2@a,b/0?key=hunter2", "rediss://a,b/0"),
        ("redis+unix:///run/redis.sock?db=1", "redis+unix:///run/redis.sock"),
        ("redis://me:hun@ter2@cache/0", "redis"),
        ("redis://s/0?sentinel_password=hun@ter2", "redis"),
    ],
)
def test_a_store_is_told_without_secrets(url: str, told: str) -> None:
    """Where it is; where that cannot be told apart from a password, only its kind."""
    assert shown(url) == told


def test_the_banner_tells_that_answers_are_sealed() -> None:
    """By either setting of keys, which it does not show."""
    config = Config(exact=ExactConfig(store="redis://:hunter2@cache/0", seal_keys=("00ff",)))
    line = next(line for line in banner(config) if "exact" in line)
    assert line == "  exact     on, for 1 h, redis://cache/0, sealed"

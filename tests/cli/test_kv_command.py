"""`askonce kv` looks at a store, measures it and takes its blocks back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import memcached
from tests.servers.redis import redis

from askonce.cli import main
from askonce.cli.kv import SECRET, URL
from askonce.kv.block import BlockKey
from askonce.kv.shelf import Shelf
from askonce.kv.transports.urls import open_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPACE = b"n" * 32
KEY = BlockKey(b"k" * 32, 3)


@pytest.fixture(params=["redis", "memcached"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Of a running store, which the environment names."""
    server = redis("redis7", tmp_path) if request.param == "redis" else memcached(tmp_path)
    with server as running:
        monkeypatch.setenv(URL, running.url)
        yield running.url


@pytest.mark.servers
@pytest.mark.slow
def test_a_store_is_shown_and_invalidated(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model by its folder is the same scope as its digest; the epoch is shown and grows."""
    (tmp_path / "w.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    model = ["--model", str(tmp_path)]
    assert main(["kv", "stat", *model]) == 0
    assert "no epoch" in capsys.readouterr().out
    assert main(["kv", "invalidate", *model]) == 0
    scope, epoch = capsys.readouterr().out.split(";")[0].removeprefix("scope ").split(": epoch ")
    assert main(["kv", "stat", "--scope", scope]) == 0
    out = capsys.readouterr().out
    assert f"epoch {epoch}" in out
    assert "version" in out
    assert main(["kv", "invalidate", "--scope", scope, "--url", url]) == 0
    assert int(capsys.readouterr().out.split(";")[0].rpartition(" ")[2]) > int(epoch)


@pytest.mark.servers
@pytest.mark.slow
def test_a_block_is_inspected(
    url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A sound block, one that is not for its key, and none."""
    monkeypatch.setenv(SECRET, "0123456789abcdef")
    transport = open_transport(url)
    shelf = Shelf(transport, SPACE, secret=b"0123456789abcdef")
    soon = Seconds(time.perf_counter() + 5)
    assert shelf.store([KEY], [memoryview(bytearray(5000))], epoch=7, ttl=None, deadline=soon) == [
        "done"
    ]
    (name,) = shelf.names([KEY], 7)
    assert main(["kv", "inspect", name.decode()]) == 0
    out = capsys.readouterr().out
    assert "verdict       sound" in out
    assert "payload_bytes 5000" in out
    header, payload = memoryview(bytearray(192)), memoryview(bytearray(5000))
    transport.fetch([name], [header], [payload], deadline=soon)
    (other,) = shelf.names([KEY], 8)
    transport.put([other, b"junk"], [header, b"x"], [payload, b"y"], ttl=None, deadline=soon)
    transport.close()
    assert main(["kv", "inspect", other.decode()]) == 1
    assert "verdict       epoch" in capsys.readouterr().out
    assert main(["kv", "inspect", "junk"]) == 1
    assert "no block" in capsys.readouterr().out
    assert main(["kv", "inspect", "nothing"]) == 1


@pytest.mark.servers
@pytest.mark.slow
def test_a_store_is_measured(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Store, lookup and load, each with its time."""
    assert main(["kv", "bench", "--url", url, "--blocks", "4", "--block-bytes", "3000"]) == 0
    words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert words == ["store", "lookup", "load"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["stat"],
        ["stat", "--url", "ftp://x"],
        ["stat", "--url", "memory://"],
        ["inspect", "--url", "memory://"],
        ["bench", "--url", "memory://", "--blocks", "0"],
        ["invalidate", "--url", "memory://"],
        ["invalidate", "--url", "memory://", "--scope", "xyz"],
        ["invalidate", "--url", "memory://", "--model", "/nowhere"],
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with the exit code for wrong usage."""
    monkeypatch.delenv(URL, raising=False)
    assert main(["kv", *arguments]) == 2
    assert capsys.readouterr().err.startswith("askonce: ")


def test_a_secret_that_is_too_short_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, before anything is asked of the store."""
    monkeypatch.setenv(SECRET, "short")
    assert main(["kv", "bench", "--url", "memory://"]) == 2
    assert capsys.readouterr().err.startswith("askonce: the secret")


@pytest.mark.parametrize(
    "flags",
    [
        ["--prefill", "nan", "1", "1"],
        ["--prefill", "1", "1", "inf"],
        ["--latent", "-2"],
        ["--heads", "-1"],
        ["--parameters", "-4"],
        ["--parameters", "nan"],
    ],
)
def test_no_plan_is_made_from_what_is_no_size(
    flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It would print figures that mean nothing."""
    shape = ["--layers", "32", "--kv-heads", "8", "--head-dim", "128"]
    assert main(["kv", "plan", *shape, *flags]) == 2
    assert capsys.readouterr().err.startswith("askonce: --")

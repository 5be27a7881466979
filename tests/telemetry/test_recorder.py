"""The request log: private, bounded, one whole line a call, and never in the way."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from askonce.config import Config, RecordConfig, ServerConfig
from askonce.errors import ConfigError
from askonce.events import Recorded
from askonce.telemetry import recorder as module
from askonce.telemetry.recorder import Call, Recorder, line_of, open_private, path_of, previous
from askonce.testing import RecordingSink

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

REQUEST = b'{"model": "m",\n "messages": [{"role": "user", "content": "a\\nb"}]}'
ANSWER = b'{"id": "x", "choices": []}'
CALL = Call(
    time=1.5,
    seconds=0.25,
    endpoint="/v1/chat/completions",
    tenant="t",
    namespace="",
    headers={},
    status=200,
    served="engine",
    request=REQUEST,
    answer=ANSWER,
    streamed=False,
)


def with_(**members: Any) -> Call:
    """The call, otherwise."""
    return msgspec.structs.replace(CALL, **members)


def outcomes(sink: RecordingSink) -> list[str]:
    """What became of the calls, in order."""
    return [event.outcome for event in sink.of(Recorded)]


async def record(path: Path, *calls: Call, max_bytes: int = 1 << 20) -> list[str]:
    """Record the calls one after the other; returns what became of them."""
    sink = RecordingSink()
    recorder = Recorder(path, max_bytes=max_bytes, max_call_bytes=1000, sink=sink)
    for call in calls:
        recorder.take(call)
        await recorder.settled()
    await recorder.close()
    return outcomes(sink)


async def test_a_call_is_one_line_that_only_its_owner_can_read(tmp_path: Path) -> None:
    """Also when the file was there before, and open to others."""
    path = tmp_path / "calls.jsonl"
    path.write_bytes(b"")
    path.chmod(0o644)
    assert await record(path, CALL, CALL) == ["written", "written"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    one, two = path.read_bytes().splitlines()
    assert one == two
    told = msgspec.json.decode(one)
    assert told["request"] == msgspec.json.decode(REQUEST)
    assert told["answer"] == msgspec.json.decode(ANSWER)
    assert (told["v"], told["time"], told["tenant"]) == (1, 1.5, "t")
    assert "namespace" not in told


async def test_a_streamed_answer_is_put_together() -> None:
    """It reads like one that was whole; one that broke off is left out."""
    choice = b'{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}'
    event = b'data: {"id":"c-1","choices":[' + choice + b"]}"
    whole = event + b"\n\ndata: [DONE]\n\n"
    told = msgspec.json.decode(line_of(with_(answer=whole, streamed=True)))
    assert told["answer"]["choices"][0]["message"]["content"] == "hi"
    broken = msgspec.json.decode(line_of(with_(answer=event + b"\n\n", streamed=True)))
    assert broken["answer"] is None
    assert msgspec.json.decode(line_of(with_(status=500)))["answer"] is None


async def test_what_cannot_be_recorded_is_counted(tmp_path: Path) -> None:
    """Too long, no JSON, or a disk that fails: the call is let go."""
    path = tmp_path / "calls.jsonl"
    found = await record(path, with_(request=b"x" * 1001), with_(request=b"{"), CALL)
    assert found == ["too_long", "unreadable", "written"]
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    sink = RecordingSink()
    with pytest.raises(ConfigError, match="cannot be written"):
        Recorder(path, max_bytes=100_000, max_call_bytes=100, sink=sink)


async def test_a_full_disk_leaves_no_half_line_that_spoils_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of a torn line is ended, so that the next call stands alone."""
    path = tmp_path / "calls.jsonl"
    write, torn = os.write, [True]

    def short(descriptor: int, data: bytes) -> int:
        if torn and torn.pop():
            return write(descriptor, data[:10])
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", short)
    assert await record(path, CALL, CALL) == ["failed", "written"]
    assert msgspec.json.decode(path.read_bytes().splitlines()[1])["v"] == 1


async def test_more_than_may_wait_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No caller waits, and memory stays bounded."""
    monkeypatch.setattr(module, "WAITING_BYTES", 150)
    sink = RecordingSink()
    recorder = Recorder(tmp_path / "c", max_bytes=1 << 20, max_call_bytes=1000, sink=sink)
    recorder.take(CALL)
    recorder.take(CALL)
    assert outcomes(sink) == ["busy"]
    await recorder.close()
    assert outcomes(sink) == ["busy", "written"]
    recorder.take(CALL)
    await recorder.settled()
    assert outcomes(sink)[-1] == "busy"


async def test_the_log_is_bounded_by_two_files(tmp_path: Path) -> None:
    """The full one is put aside, in place of the one before."""
    path = tmp_path / "calls.jsonl"
    size = len(line_of(CALL))
    assert set(await record(path, *[CALL] * 9, max_bytes=4 * size + 2)) == {"written"}
    assert path.stat().st_size == size
    assert previous(path).stat().st_size == 2 * size
    assert stat.S_IMODE(previous(path).stat().st_mode) == 0o600


async def test_two_workers_share_the_file(tmp_path: Path) -> None:
    """When one puts it aside, or somebody takes it away, the other goes on in the new one."""
    path = tmp_path / "calls.jsonl"
    sink = RecordingSink()
    size = len(line_of(CALL))
    workers = [
        Recorder(path, max_bytes=4 * size + 2, max_call_bytes=1000, sink=sink) for _ in range(2)
    ]
    for at in range(5):
        workers[at % 2].take(CALL)
        await workers[at % 2].settled()
    lines = path.read_bytes().count(b"\n") + previous(path).read_bytes().count(b"\n")
    assert (lines, path.read_bytes().count(b"\n")) == (3, 1)
    path.unlink()
    workers[1].take(CALL)
    await workers[1].settled()
    assert path.read_bytes().count(b"\n") == 1
    for worker in workers:
        await worker.close()
    assert set(outcomes(sink)) == {"written"}


async def test_only_an_ordinary_file_is_written(tmp_path: Path) -> None:
    """A pipe would block, and a link may lead anywhere."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "no/such/folder", "."):
        with pytest.raises(ConfigError, match=r"record\.path"):
            open_private(tmp_path / name)
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(ConfigError, match="no ordinary file"):
        open_private(tmp_path / "pipe")
    os.close(reader)


async def test_the_configured_path_lies_in_the_data_directory(tmp_path: Path) -> None:
    """Unless it is absolute."""
    config = Config(
        server=ServerConfig(data_dir=str(tmp_path)), record=RecordConfig(path="calls.jsonl")
    )
    assert path_of(config) == tmp_path / "calls.jsonl"
    recorder = Recorder.configured(config, RecordingSink())
    await recorder.close()
    absolute = msgspec.structs.replace(config, record=RecordConfig(path="/else/x"))
    assert str(path_of(absolute)) == "/else/x"


@pytest.mark.parametrize("body", [b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", b'{"a": "\xff"}'])
async def test_what_no_reader_could_take_is_counted(tmp_path: Path, body: bytes) -> None:
    """Callers choose it: too deep, or no UTF-8."""
    sink = RecordingSink()
    path = tmp_path / "calls.jsonl"
    recorder = Recorder(path, max_bytes=1 << 20, max_call_bytes=1 << 16, sink=sink)
    recorder.take(with_(request=body))
    await recorder.settled()
    await recorder.close()
    assert outcomes(sink) == ["unreadable"]
    assert path.read_bytes() == b""


def test_credentials_for_other_servers_are_not_written_down() -> None:
    """Providers take them in the body."""
    request = b'{"tools": [{"type": "mcp", "headers": {"x": "s3cret"}}], "model": "m"}'
    line = line_of(with_(request=request))
    assert b"s3cret" not in line
    assert b'"model":"m"' in line.replace(b" ", b"")

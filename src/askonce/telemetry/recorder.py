"""The request log: one JSON object a call, appended to a private file by a thread of its own.

Lines hold prompts and answers, never credentials: of the headers only those that steer the cache
are kept, and a caller is named by a keyed digest.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.canonical.answer import StreamReader, render_completion
from askonce.canonical.sse import EventSplitter, data_of
from askonce.errors import AnswerUnusable, ConfigError
from askonce.events import Recorded
from askonce.telemetry.secrets import without_secrets
from askonce.worker import Worker, WorkerBusy, WorkerClosed

if TYPE_CHECKING:
    from askonce.config import Config
    from askonce.events import RecordOutcome
    from askonce.ports import Sink

VERSION = 1
WAITING_BYTES = 32 * 1024 * 1024
"""Bytes of calls that may wait to be written."""
_WAITING = 1024

_encode = msgspec.json.encode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call as the gateway has seen it."""

    time: float
    seconds: float
    endpoint: str
    """Path, and query if there is one."""
    tenant: str
    namespace: str
    headers: dict[str, str]
    """Those that steer the cache."""
    status: int
    served: str
    """`exact`, `semantic`, or `engine`."""
    request: bytes
    answer: bytes
    """As it was delivered; empty unless it is whole."""
    streamed: bool


class Recorder:
    """Takes calls and forgets them when they cannot be written at once; no caller ever waits."""

    def __init__(self, path: Path, *, max_bytes: int, max_call_bytes: int, sink: Sink) -> None:
        """Inside a running event loop; raises ConfigError for a file that cannot be used."""
        self._path = path
        self._half = max_bytes // 2
        self.max_call_bytes = max_call_bytes
        self._sink = sink
        self._descriptor = open_private(path)
        self._waiting = 0
        self._worker = Worker("askonce-record", limit=_WAITING, nice=10)
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    def configured(cls, config: Config, sink: Sink) -> Recorder:
        """Inside a running event loop; raises ConfigError."""
        limits = config.record
        return cls(
            path_of(config),
            max_bytes=limits.max_bytes,
            max_call_bytes=limits.max_call_bytes,
            sink=sink,
        )

    def take(self, call: Call) -> None:
        """Have the call written behind; raises nothing."""
        size = len(call.request) + len(call.answer)
        if max(len(call.request), len(call.answer)) > self.max_call_bytes:
            self.count("too_long")
        elif self._waiting + size > WAITING_BYTES:
            self.count("busy")
        else:
            self._waiting += size
            task = asyncio.create_task(self._write(call, size))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def count(self, outcome: RecordOutcome) -> None:
        """Tell what became of a call."""
        self._sink.emit(Recorded(outcome))

    async def settled(self) -> None:
        """Wait until nothing waits to be written."""
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def close(self) -> None:
        """Write what waits, then close the file."""
        await self.settled()
        await self._worker.close()
        os.close(self._descriptor)

    async def _write(self, call: Call, size: int) -> None:
        outcome: RecordOutcome = "written"
        try:
            await self._worker.run(lambda: self._append(line_of(call)))
        except (WorkerBusy, WorkerClosed):
            outcome = "busy"
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            outcome = "unreadable"
        except OSError:
            outcome = "failed"
        finally:
            self._waiting -= size
        self.count(outcome)

    def _append(self, line: bytes) -> None:
        """One write, so that lines of several workers never mix."""
        if not self._is_current():
            self._reopen()
        if os.fstat(self._descriptor).st_size + len(line) > self._half:
            self._rotate()
        written = os.write(self._descriptor, line)
        if written < len(line):
            os.write(self._descriptor, b"\n")
            raise OSError("the disk is full")

    def _is_current(self) -> bool:
        """Whether the open file is still the one at the path."""
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        """Put the full file aside, unless another worker was first."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            if self._is_current():
                self._path.replace(previous(self._path))
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._reopen()

    def _reopen(self) -> None:
        fresh = open_private(self._path)
        os.close(self._descriptor)
        self._descriptor = fresh


def path_of(config: Config) -> Path:
    """Where the log is written; relative paths lie in the data directory."""
    return Path(config.server.data_dir) / Path(config.record.path).expanduser()


def previous(path: Path) -> Path:
    """The file that was full before this one."""
    return path.with_name(path.name + ".1")


def open_private(path: Path) -> int:
    """A descriptor to append by, of a file that its owner alone can read; raises ConfigError."""
    flags = os.O_APPEND | os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as reason:
        raise ConfigError(f"record.path: {path} cannot be written: {reason.strerror}") from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConfigError(f"record.path: {path} is no ordinary file")
    os.fchmod(descriptor, 0o600)
    return descriptor


def line_of(call: Call) -> bytes:
    """The call as one line.

    Raises MsgspecError, UnicodeDecodeError or RecursionError when request or answer is not JSON
    that a reader could take.
    """
    members = {
        "v": VERSION,
        "time": call.time,
        "seconds": round(call.seconds, 4),
        "endpoint": call.endpoint,
        "tenant": call.tenant,
        "namespace": call.namespace,
        "headers": call.headers,
        "status": call.status,
        "served": call.served,
        "request": _one_line(call.request),
        "answer": _answer_of(call),
    }
    return (
        _encode({name: value for name, value in members.items() if value not in ("", {})}) + b"\n"
    )


def _one_line(body: bytes) -> msgspec.Raw:
    """JSON without line ends: strings cannot hold them raw, so that nothing is lost."""
    body.decode()
    _check(body)
    return msgspec.Raw(without_secrets(body).replace(b"\n", b" ").replace(b"\r", b" "))


def _answer_of(call: Call) -> msgspec.Raw | None:
    """The whole answer, a streamed one put together; None where there is none to learn from."""
    if call.status != 200 or not call.answer:
        return None
    if not call.streamed:
        return _one_line(call.answer)
    reader, events = StreamReader(), EventSplitter()
    for event in events.feed(call.answer):
        data = data_of(event)
        if data is not None:
            reader.feed(data)
    try:
        answer = reader.finish()
    except AnswerUnusable:
        return None
    answer_id = f"{answer.id_prefix}recorded"
    return msgspec.Raw(render_completion(answer, answer_id=answer_id, created=int(call.time)))

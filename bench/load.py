"""Closed-loop load with wrk, or without it with the client of this package."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from bench.client import Job, Outcome, Stream
from bench.samples import HEADERS, MARK, PATH, raw_request
from bench.servers import cores, spawn
from bench.stats import percentile

if TYPE_CHECKING:
    from pathlib import Path

    from bench.servers import Server

NUMBER = MARK * 6
"""Stands in a body for twelve digits that no other request has."""
SETTLING = 0.25
"""Seconds before a load, in which what others left behind is written."""
NO_ANSWER = "nothing was answered under load"
_starts = itertools.count(int(time.time()) % 100_000)
_LUA = """
wrk.method, wrk.body = "POST", %(body)s
%(headers)s
local number, before, after, again = %(first)d, %(before)s, %(after)s, %(again)d
if before then
  request = function()
    number = number + 1
    local shown = again > 0 and number %% again or number
    return wrk.format(nil, nil, nil, before .. string.format("%%012d", shown) .. after)
  end
end
done = function(summary, latency, requests)
  io.write(string.format("\\nBENCH %%d %%d %%d %%d %%d\\n", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    summary.errors.status + summary.errors.read + summary.errors.timeout))
end
"""


@dataclass(frozen=True)
class Run:
    """What a load came to."""

    rate: float
    """Answers a second."""
    p50: float
    """Seconds."""
    p99: float = 0.0
    """Seconds."""
    cpu: float = 0.0
    """Seconds of the server's processor for one answer; 0 where that is not known."""

    @property
    def per_core(self) -> float:
        """Answers for a second of one core, whatever else ran on it; else answers a second."""
        return 1 / self.cpu if self.cpu else self.rate


def has_wrk() -> bool:
    """Whether wrk is installed."""
    return shutil.which("wrk") is not None


def load(
    folder: Path,
    server: Server,
    body: bytes,
    connections: int,
    *,
    seconds: float,
    again: int = 0,
) -> Run:
    """Keep so many connections busy for so long; `NUMBER` in the body makes each request new.

    again: there are only so many requests, from number 0 on.
    """
    time.sleep(SETTLING)
    before = server.cpu()
    first = next(_starts) * 10_000_000 % 10**12
    request = raw_request(body, server.port).decode()
    stream = Stream(request, connections, first_number=first, numbers=again)
    run, answers = _load(folder, server.port, body, stream, seconds)
    return replace(run, cpu=(server.cpu() - before) / answers)


def paced(server: Server, body: bytes, every: float, *, seconds: float) -> Run:
    """One connection and a request every so many seconds, whatever the answers take."""
    time.sleep(SETTLING)
    first = next(_starts) * 10_000_000 % 10**12
    request = raw_request(body, server.port).decode()
    stream = Stream(request, 1, rate=1 / every, first_number=first)
    before = server.cpu()
    outcome = run_job(Job(server.port, seconds, [stream]), cores().client)[0]
    _no_errors(outcome.errors)
    good = outcome.latencies
    p50, p99 = _middle_and_edge(good)
    cpu = (server.cpu() - before) / len(good)
    return Run(len(good) / outcome.seconds, p50, p99, cpu)


def _load(folder: Path, port: int, body: bytes, stream: Stream, seconds: float) -> tuple[Run, int]:
    core = cores().client
    if has_wrk():
        job = ["wrk", "-t1", f"-c{stream.connections}", f"-d{seconds:g}s", "--timeout", "30s"]
        return _wrk(folder, [*job, f"http://127.0.0.1:{port}{PATH}"], body, stream)
    outcome = run_job(Job(port, seconds, [stream]), core)[0]
    _no_errors(outcome.errors)
    good = outcome.latencies
    return Run(len(good) / outcome.seconds, *_middle_and_edge(good)), len(good)


def _middle_and_edge(latencies: list[float]) -> tuple[float, float]:
    if not latencies:
        raise SystemExit(NO_ANSWER)
    return percentile(latencies, 0.5), percentile(latencies, 0.99)


def run_job(job: Job, core: int | None) -> list[Outcome]:
    """Have a client process do a job."""
    argv = [sys.executable, "-m", "bench.client"]
    child = spawn(argv, core, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    out, _ = child.communicate(msgspec.json.encode(job), timeout=job.seconds + 60)
    return msgspec.json.decode(out, type=list[Outcome])


def _wrk(folder: Path, argv: list[str], body: bytes, stream: Stream) -> tuple[Run, int]:
    before, mark, after = body.decode().partition(NUMBER)
    script = folder / "wrk.lua"
    script.write_text(
        _LUA
        % {
            "body": _lua(before + after),
            "headers": "\n".join(
                f"wrk.headers[{_lua(name)}] = {_lua(value)}" for name, value in HEADERS.items()
            ),
            "first": stream.first_number,
            "again": stream.numbers,
            "before": _lua(before) if mark else "nil",
            "after": _lua(after),
        }
    )
    argv[1:1] = ["-s", str(script)]
    child = spawn(argv, cores().client, {"LC_ALL": "C"}, stdout=subprocess.PIPE)
    out, _ = child.communicate(timeout=120)
    for line in out.decode().splitlines():
        if line.startswith("BENCH "):
            answers, micros, p50, p99, errors = map(int, line.split()[1:])
            _no_errors(errors)
            if not answers:
                raise SystemExit(NO_ANSWER)
            return Run(answers / micros * 1e6, p50 / 1e6, p99 / 1e6), answers
    raise SystemExit(f"wrk said: {out.decode()}")


def _lua(text: str) -> str:
    """A Lua string; JSON's escapes of ASCII text are Lua's as well."""
    return json.dumps(text)


def _no_errors(errors: int) -> None:
    if errors:
        raise SystemExit(f"{errors} requests failed under load")

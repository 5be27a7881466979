"""Servers and clients as processes of their own, each on its core."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

from bench.samples import HEADERS, PATH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parent.parent
PATIENCE = 120.0
PRIORITY = -10
"""Niceness of all that is measured, so that other programs disturb it less; needs root."""
UVICORN = (
    *("--loop", "uvloop", "--http", "httptools", "--no-access-log", "--log-level", "warning"),
    *("--no-server-header", "--no-proxy-headers", "--ws", "none", "--lifespan", "on"),
)
"""What `askonce serve` sets."""


@dataclass(frozen=True)
class Cores:
    """The core under measurement and the one that its client has; None where they cannot be set."""

    server: int | None
    client: int | None


def cores() -> Cores:
    """The first and the last core that this process may use."""
    if not hasattr(os, "sched_getaffinity"):
        return Cores(None, None)
    usable = sorted(os.sched_getaffinity(0))
    return Cores(usable[0], usable[-1])


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def spawn(
    argv: Sequence[str],
    core: int | None,
    environ: Mapping[str, str] | None = None,
    **pipes: object,
) -> subprocess.Popen[bytes]:
    """A child bound to a core, and before its neighbours where that is allowed."""
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ASKONCE_")}
    env = {**ours, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **(environ or {})}
    return subprocess.Popen(argv, env=env, preexec_fn=partial(settle, core), **pipes)  # type: ignore[call-overload,no-any-return]  # noqa: PLW1509 - one thread here


def settle(core: int | None, pid: int = 0) -> None:
    """Bind a process, else this one, to a core, and put it before others where that is allowed."""
    for thread in _threads(pid):
        if core is not None:
            os.sched_setaffinity(thread, {core})
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, PRIORITY)


def _threads(pid: int) -> list[int]:
    """What is bound apart from each other; the kernel knows no whole processes."""
    try:
        return [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return [pid]


@dataclass(frozen=True)
class Server:
    """A server that listens."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of processor that it has used so far, its children included; 0 off Linux."""
        return sum(map(_cpu_of, family(self.pid)))


def family(pid: int) -> list[int]:
    """A process and all its descendants; itself alone off Linux."""
    with contextlib.suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *(each for child in children for each in family(int(child)))]
    return [pid]


def _cpu_of(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def running(
    argv: Sequence[str],
    port: int,
    core: int | None,
    environ: Mapping[str, str] | None = None,
    *,
    path: str = "",
    out: IO[bytes] | None = None,
) -> Iterator[Server]:
    """A server process, from the moment it listens (or answers `path` with 200) to its end.

    out: takes all that it prints; else its errors are shown.
    """
    printed = {"stdout": out or subprocess.DEVNULL, "stderr": out}
    child = spawn(argv, core, environ, stdin=subprocess.DEVNULL, **printed)
    try:
        _await_server(child, port, path)
        yield Server(port, child.pid)
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _await_server(child: subprocess.Popen[bytes], port: int, path: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not _answers(port, path):
        if child.poll() is not None:
            raise SystemExit(f"{child.args!r} ended with {child.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"{child.args!r} does not answer")
        time.sleep(0.05)


def _answers(port: int, path: str) -> bool:
    try:
        if path:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as response:
                return bool(response.status == 200)
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextlib.contextmanager
def origin(folder: Path, answer: bytes, core: int | None) -> Iterator[Server]:
    """The engine that answers at once."""
    file = folder / "answer.json"
    file.write_bytes(answer)
    port = free_port()
    with running(
        [sys.executable, "-m", "bench.origin", str(port), str(file)], port, core
    ) as server:
        yield server


@contextlib.contextmanager
def gateway(
    folder: Path, upstream: int, core: int | None, *, semantic: bool = False, more: str = ""
) -> Iterator[Server]:
    """AskOnce as a user starts it, with a data directory of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = folder / "askonce.toml"
    config.write_text(
        f'[server]\nport = {port}\ndata_dir = "{folder}"\n'
        f'[[upstream]]\nurl = "http://127.0.0.1:{upstream}/v1"\nname = "origin"\n'
        f"[semantic]\nenabled = {str(semantic).lower()}\n{more}"
    )
    environ = {"ASKONCE_CONFIG": str(config)}
    with running(_serving(port), port, core, environ, path="/readyz") as server:
        yield server


def _serving(port: int) -> list[str]:
    if importlib.util.find_spec("askonce.cli") is not None:
        return [sys.executable, "-m", "askonce", "serve"]
    return _uvicorn("askonce.gateway.service:from_environment", port)


def _uvicorn(app: str, port: int) -> list[str]:
    start = [sys.executable, "-m", "uvicorn", app, "--factory", "--port", str(port)]
    return [*start, *UVICORN]


@contextlib.contextmanager
def canned(
    folder: Path, headers: Sequence[tuple[str, str]], body: bytes, core: int | None
) -> Iterator[Server]:
    """The bare application that gives this one answer."""
    file = folder / "canned.json"
    file.write_text(json.dumps({"headers": headers, "body": body.decode()}))
    port = free_port()
    with running(
        _uvicorn("bench.apps:canned", port), port, core, {"BENCH_ANSWER": str(file)}
    ) as server:
        yield server


@contextlib.contextmanager
def relay(upstream: int, core: int | None) -> Iterator[Server]:
    """The bare pass-through."""
    port = free_port()
    environ = {"BENCH_UPSTREAM": f"http://127.0.0.1:{upstream}"}
    with running(_uvicorn("bench.apps:relay", port), port, core, environ) as server:
        yield server


def nginx_program() -> str | None:
    """Where nginx is, if it is."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextlib.contextmanager
def nginx(
    folder: Path, headers: Sequence[tuple[str, str]], body: bytes, core: int | None
) -> Iterator[Server]:
    """The same answer from one nginx worker; its `return` needs the body without a dollar."""
    port = free_port()
    extra = "\n".join(
        f'add_header {name} "{value}";'
        for name, value in headers
        if name not in {"content-length", "content-type", "date", "connection", "server"}
    )
    text = body.decode().replace("\\", "\\\\").replace("'", "\\'")
    (folder / "nginx.conf").write_text(
        f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;\n"
        "events { worker_connections 1024; }\n"
        "http { access_log off; keepalive_requests 1000000000;\n"
        f"client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;\n"
        f"fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;\n"
        f"scgi_temp_path {folder}/scgi;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json;\n"
        f"{extra}\nreturn 200 '{text}'; }} }} }}\n"
    )
    argv = [str(nginx_program()), "-p", str(folder), "-c", str(folder / "nginx.conf")]
    with running(argv, port, core) as server:
        yield server


def ask(port: int, body: bytes, path: str = PATH) -> tuple[list[tuple[str, str]], bytes]:
    """One request and the answer's headers and body."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body or None, HEADERS)
    with urllib.request.urlopen(request, timeout=60) as response:
        headers = [(name.lower(), value) for name, value in response.getheaders()]
        return headers, response.read()


def semantic_state(port: int) -> str:
    """What the gateway says of its semantic tier."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as response:
        return str(json.load(response)["semantic"])


def page(port: int, path: str) -> str:
    """The text of a GET."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
        return str(response.read().decode())

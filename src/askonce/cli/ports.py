"""Who listens at a port of this machine, where Linux tells."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC = Path("/proc")
LISTENING = "0A"


def holder_of(port: int, proc: Path = PROC) -> str:
    """The process that listens there, as `name (pid N)`; empty when it cannot be told."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port, proc)}
    if not wanted:
        return ""
    for link in proc.glob("[0-9]*/fd/*"):
        with contextlib.suppress(OSError):
            if str(link.readlink()) in wanted:
                process = link.parent.parent
                return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    return ""


def _inodes(port: int, proc: Path) -> Iterator[str]:
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in (proc / "net" / table).read_text().splitlines()[1:]:
                columns = line.split()
                if columns[3] == LISTENING and int(columns[1].rpartition(":")[2], 16) == port:
                    yield columns[9]

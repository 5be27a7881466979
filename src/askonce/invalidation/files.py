"""Files that deployments write: when one changes, what it stands for is taken back."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from typing import TYPE_CHECKING

from askonce.errors import CacheFault
from askonce.invalidation.desk import Request

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from askonce.invalidation.desk import InvalidationDesk
    from askonce.invalidation.watch import Watch
    from askonce.ports import Selector

log = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two looks at a file."""


class FileWatch:
    """One file of many replicas.

    The log says which content was seen last, so that a change is taken note of once, whoever sees
    it first, and one from before the start is not missed.
    """

    def __init__(self, name: str, path: Path, what: Selector) -> None:
        """Look at nothing yet; name: under which the log knows it."""
        self._by = f"file {name}"
        self._path = path
        self._what = what

    async def look(self, watch: Watch, desk: InvalidationDesk) -> bool:
        """Take back what the file stands for if it changed, or was never seen.

        Returns whether it did; raises StoreError.
        """
        digest = await asyncio.to_thread(_digest, self._path)
        if digest is None or watch.said_by(self._by) == digest:
            return False
        await watch.refresh()
        if watch.said_by(self._by) == digest:
            return False
        await desk.take_back(self._what, Request(by=self._by, why=digest))
        return True


async def follow_files(
    files: Mapping[str, FileWatch], watch: Watch, desk: InvalidationDesk
) -> None:
    """Look at all files again and again; runs until cancelled."""
    while True:
        for name, file in files.items():
            try:
                if await file.look(watch, desk):
                    log.warning("%s changed: what it stands for was taken back", name)
            except CacheFault as fault:
                log.debug("the change of %s cannot be told: %s", name, fault)
        await asyncio.sleep(INTERVAL)


def _digest(path: Path) -> str | None:
    """SHA-256 of the content; None while it cannot be read: a file in the middle of a change."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None

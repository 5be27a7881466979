"""Replicas tell each other which blocks they saw, through the store, now and then."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Final

from askonce.errors import places
from askonce.kv.bulkhead import unbind
from askonce.kv.sights import read_page

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from askonce.kv.admission import Admission
    from askonce.kv.board import Board
    from askonce.ports import Clock
    from askonce.units import Seconds

HEARSAY_METRICS: Final[Mapping[str, tuple[str, str]]] = {
    "askonce_kv_sight_pages_total": (
        "outcome",
        "Pages of what was seen: `posted` for other replicas or `lost`, `read` or `unreadable`.",
    ),
}
"""Name to labels and meaning."""
_BREATH: Final = 0.0005
"""Seconds between two gulps: the scheduler's thread goes first."""
_GULP: Final = 64
"""Blocks, at least, that are merged in one go."""
_PATIENCE: Final = 1.0
_log = logging.getLogger(__name__)


class Hearsay:
    """Exchanges one replica's sights for those of the others, on a thread of its own."""

    def __init__(self, admission: Admission, board: Board, clock: Clock, *, every: Seconds) -> None:
        """every: seconds between two exchanges; takes over the board."""
        self._admission = admission
        self._board = board
        self._clock = clock
        self._every = every
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def turn(self) -> None:
        """One exchange; what comes in one turn has the same effect in whatever order it comes."""
        heard, merged = self._board.swap(self._admission.drain()), 0
        for page in sorted(heard):
            requests = read_page(page)
            if requests is None:
                self._board.figures.unreadable += 1
            for hashes in requests or ():
                self._admission.hear(hashes, self._clock.monotonic())
                merged += len(hashes)
                if merged >= _GULP:
                    self._breathe()
                    merged = 0

    def start(self) -> None:
        """Exchange from now on."""
        self._thread = threading.Thread(target=self._follow, name="askonce-kv-sights", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Exchange no longer."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_PATIENCE)
        self._board.close()

    def samples(self) -> Iterator[tuple[str, tuple[str, ...], float]]:
        """Every metric as name, values of its labels in order, and value."""
        told = self._board.figures
        for outcome in ("posted", "lost", "read", "unreadable"):
            yield "askonce_kv_sight_pages_total", (outcome,), getattr(told, outcome)

    def _follow(self) -> None:
        unbind()
        while not self._stop.wait(self._every):
            try:
                self.turn()
            except Exception as error:  # noqa: BLE001 - a third party's transport; costs sights
                _log.error("a KV transport raised %s\n%s", type(error).__name__, places(error))

    def _breathe(self) -> None:
        """Let others run, where there is a thread to give way to."""
        if self._thread is not None:
            self._stop.wait(_BREATH)

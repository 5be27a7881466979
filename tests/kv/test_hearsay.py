"""Replicas that tell each other what they saw."""

from __future__ import annotations

import random
import threading
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

from askonce.clock import SystemClock
from askonce.kv.admission import Admission, Limits
from askonce.kv.board import Board, BoardFigures
from askonce.kv.hearsay import HEARSAY_METRICS, Hearsay
from askonce.kv.reuse import COUNTS
from askonce.kv.sights import PAGE_BYTES, Journal
from askonce.kv.transports.memory import MemoryTransport
from askonce.testing import FakeClock
from askonce.units import Bytes, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

EVERY = Seconds(5.0)
PAGE = Path(__file__).parents[2] / "docs" / "kv" / "vllm.md"


class FakeBoard:
    """What a test puts up comes back, once."""

    def __init__(self, *turns: Sequence[bytes], breaks: bool = False) -> None:
        self.turns = list(turns)
        self.put_up: list[bytes] = []
        self.figures = BoardFigures()
        self.asked = threading.Event()
        self.breaks = breaks
        self.closed = False

    def swap(self, pages: Sequence[bytes]) -> list[bytes]:
        self.put_up += pages
        if self.breaks:
            self.breaks = False
            raise RuntimeError("a third party's transport")
        found = list(self.turns.pop(0)) if self.turns else []
        if not self.turns:
            self.asked.set()
        return found

    def close(self) -> None:
        self.closed = True


def _admission() -> Admission:
    return Admission(Limits(budget=Bytes(10**6), block_bytes=Bytes(1)), width=1 << 10)


def _hashes(start: int, count: int) -> list[int]:
    return [random.Random(number).getrandbits(64) for number in range(start, start + count)]


def _page(*requests: Sequence[int]) -> bytes:
    journal = Journal(1)
    for each in requests:
        journal.write_down(each)
    return journal.drain()[0]


def _hearsay(board: FakeBoard, admission: Admission, every: float = EVERY) -> Hearsay:
    return Hearsay(admission, board, FakeClock(), every=Seconds(every))  # type: ignore[arg-type]


def _counts(admission: Admission, hashes: Sequence[int]) -> list[int]:
    return [kind % COUNTS for kind in admission.see(hashes, Seconds(1.0)).classes]


def test_what_one_saw_the_other_has_seen() -> None:
    """Through a store, in one turn of each; nobody counts their own sights twice."""
    clock, store = FakeClock(), MemoryTransport(clock=FakeClock())
    both = [_admission() for _ in range(2)]
    told = [
        Hearsay(each, Board(store, b"n" * 32, clock, every=EVERY), clock, every=EVERY)
        for each in both
    ]
    both[0].see(_hashes(0, 3), clock.monotonic())
    both[1].see(_hashes(3, 2), clock.monotonic())
    for _ in range(2):
        for each in told:
            each.turn()
    assert _counts(both[0], _hashes(0, 5)) == [1] * 5
    assert _counts(both[1], _hashes(0, 5)) == [1] * 5


def test_pages_of_one_turn_have_no_order() -> None:
    """All orders lead to the same counts, classes and plan."""
    pages = [_page(_hashes(0, 4), _hashes(9, 2)), _page(_hashes(0, 6)), _page(_hashes(2, 4))]
    states = []
    for order in permutations(pages):
        admission = _admission()
        _hearsay(FakeBoard(order), admission).turn()
        states.append((admission.see(_hashes(0, 11), Seconds(1.0)), admission.shares))
    assert all(state == states[0] for state in states)


def test_counts_are_the_same_whatever_turn_brings_a_page() -> None:
    """Sums have no order."""
    pages = [_page(_hashes(0, 4)), _page(_hashes(0, 6)), _page(_hashes(2, 4))]
    states = []
    for order in permutations(pages):
        admission = _admission()
        hearsay = _hearsay(FakeBoard(*([page] for page in order)), admission)
        for _ in order:
            hearsay.turn()
        states.append(_counts(admission, _hashes(0, 6)))
    assert states == [[2, 2, 3, 3, 2, 2]] * len(states)


def test_a_page_without_sense_changes_nothing() -> None:
    """Though its seal is good."""
    board, admission = FakeBoard([b"\xff" * PAGE_BYTES, _page([5])]), _admission()
    _hearsay(board, admission).turn()
    assert board.figures.unreadable == 1
    assert _counts(admission, [5]) == [1]


def test_every_figure_has_its_name() -> None:
    """By outcome."""
    board = FakeBoard()
    board.figures.posted = 3
    told = {labels: value for _, labels, value in _hearsay(board, _admission()).samples()}
    assert told == {("posted",): 3, ("lost",): 0, ("read",): 0, ("unreadable",): 0}
    assert {name for name, _, _ in _hearsay(board, _admission()).samples()} == set(HEARSAY_METRICS)
    text = PAGE.read_text()
    for name, (labels, meaning) in HEARSAY_METRICS.items():
        assert f"| `{name}` | `{labels}` | {meaning} |" in text


def test_a_thread_exchanges_until_it_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever a transport raises costs one turn."""
    board, admission = FakeBoard([_page(_hashes(0, 2))], breaks=True), _admission()
    admission.see([9], Seconds(0.0))
    hearsay = Hearsay(admission, board, SystemClock(), every=Seconds(0.01))  # type: ignore[arg-type]
    hearsay.start()
    assert board.asked.wait(5)
    hearsay.close()
    assert board.closed
    assert [name for name in caplog.text.split() if name == "RuntimeError"]
    assert _counts(admission, _hashes(0, 2)) == [1, 1]
    assert board.put_up == [_page([9])]


def test_what_was_never_started_is_closed() -> None:
    """And lets go of the board."""
    board = FakeBoard()
    _hearsay(board, _admission()).close()
    assert board.closed


class Pauses(threading.Event):
    """Nobody waits."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def wait(self, timeout: float | None = None) -> bool:
        self.count += timeout is not None
        return False


def test_short_requests_take_no_longer_than_long_ones() -> None:
    """A turn of many pages that are full of single blocks ends before the next is due."""
    short = [_page(*([each] for each in _hashes(0, 2000)))]
    long = [_page(_hashes(0, 2000)[at : at + 100]) for at in range(0, 2000, 100)]
    for pages in (short, long):
        hearsay = _hearsay(FakeBoard(pages), _admission())
        hearsay._thread, hearsay._stop = threading.current_thread(), Pauses()
        hearsay.turn()
        assert 20 <= hearsay._stop.count <= 2000 // 64

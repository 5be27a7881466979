"""Requests come out of the log as they went in: in order, by place, with what was decided."""

from __future__ import annotations

import msgspec
import pytest

from askonce.trust.account import asked as asking
from askonce.trust.account.asked import Asked, Place, Step, What, unpacked

HERE, THERE = Place(b"faq", b"p" * 32), Place(b"other", b"")


def test_requests_come_back_in_order() -> None:
    """Places, cells and decisions are as they were noted, and are told once."""
    asked = Asked()
    noted: list[tuple[Place, int | None, What]] = [
        (HERE, 3, "served"),
        (HERE, None, "asked"),
        (THERE, 41, "asked"),
        (HERE, 3, "withdrawn"),
        (HERE, 2, "unwatched"),
    ]
    for place, cell, what in noted:
        asked.note(place, cell, what)
    assert len(asked) == 5
    steps = [Step(*place, cell, what) for place, cell, what in noted]
    assert list(unpacked(asked.packed())) == steps
    assert asked.packed() == b""
    assert len(asked) == 0


def test_a_request_costs_a_byte() -> None:
    """A thousand requests at one place are a record of little more than a thousand bytes."""
    asked = Asked()
    for _ in range(1000):
        asked.note(HERE, 5, "asked")
    assert len(asked.packed()) < 1060


def test_nobody_who_takes_them_costs_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound the oldest are let go."""
    monkeypatch.setattr(asking, "MOST", 3)
    asked = Asked()
    for cell in range(5):
        asked.note(HERE if cell % 2 else THERE, cell, "asked")
    assert [step.cell for step in unpacked(asked.packed())] == [2, 3, 4]


@pytest.mark.parametrize(
    "packed",
    [
        b"strange",
        b"\x90",
        msgspec.msgpack.encode([[[b"a", b""]], [[1, b"\0"]]]),
        msgspec.msgpack.encode([[[b"a", b""]], [[-1, b"\0"]]]),
        msgspec.msgpack.encode([[[b"a", b""]], [[0, bytes([42])]]]),
    ],
)
def test_what_is_no_record_of_requests_is_refused(packed: bytes) -> None:
    """Bytes of another kind raise an error, and count nothing."""
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        list(unpacked(packed))

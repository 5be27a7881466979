"""Evidence is checked before it is kept, and a retraction is evidence."""

from __future__ import annotations

import msgspec
import pytest

from askonce.testing.evidence import example_evidence
from askonce.trust.labels import checked, retraction
from askonce.units import UnixTime


def test_takes_a_sound_record() -> None:
    """A record in order comes back as it is."""
    record = example_evidence()
    assert checked(record) is record


@pytest.mark.parametrize(
    "poison",
    [{"probability": 0.0}, {"probability": 1.5}, {"score": float("nan")}, {"features": b"x"}],
)
def test_refuses_poison(poison: dict[str, object]) -> None:
    """A weight without end, a score that is none or half a feature raises ValueError."""
    with pytest.raises(ValueError, match=r"probability|score|features"):
        checked(msgspec.structs.replace(example_evidence(), **poison))


def test_a_retraction_stands_where_its_entry_was() -> None:
    """It is an operator's word, in the partition of the last record, for no request."""
    last = msgspec.structs.replace(example_evidence(3), seq=9)
    told = retraction(last.entry, last, UnixTime(5.0))
    assert (told.verdict, told.source, told.retracted) == ("different", "operator", True)
    assert (told.partition, told.request_id, told.seq) == (last.partition, "", 0)
    assert checked(told) is told


def test_an_entry_without_records_can_be_retracted() -> None:
    """Then no partition is known."""
    told = retraction(b"e", None, UnixTime(5.0))
    assert (told.entry, told.partition, told.at) == (b"e", b"", 5.0)
    assert checked(told) is told

"""Evidence is checked before it is kept, and a retraction is evidence."""

from __future__ import annotations

import msgspec
import pytest

from askonce.testing.evidence import example_evidence
from askonce.trust.labels import checked, one_look, requests, retraction, said, whole_requests
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


def test_requests_are_no_label_of_anything() -> None:
    """Their record names the process that decided them, and nothing else."""
    told = requests(b"packed", "process", UnixTime(5.0))
    assert (told.source, told.request_id, told.look) == ("asked", "process", b"packed")
    assert checked(told) is told


def test_somebodys_word_is_about_a_record() -> None:
    """It has the record's place, and no look of its own."""
    about = msgspec.structs.replace(example_evidence(3), look=b"look", seq=9)
    told = said(about, "different", "caller", UnixTime(5.0))
    assert (told.entry, told.verdict, told.source) == (about.entry, "different", "caller")
    assert (told.look, told.seq, told.at, told.probability) == (b"", 0, 5.0, 1.0)


def test_a_look_is_kept_once() -> None:
    """On the first record, wherever it was."""
    looks = [
        msgspec.structs.replace(example_evidence(at), look=each)
        for at, each in enumerate((b"", b"a", b"a"))
    ]
    assert [one.look for one in one_look(looks)] == [b"a", b"", b""]
    assert one_look([]) == []


def test_a_page_ends_where_a_request_ends() -> None:
    """The last request's records wait for the next page, unless they are all there is."""
    records = [example_evidence(at, request_id=name) for at, name in enumerate("aabb")]
    assert list(whole_requests(records)) == records[:2]
    assert list(whole_requests(records[:2])) == records[:2]

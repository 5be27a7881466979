"""Which entries have been taken back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from askonce.canonical.answer import read_with_facts
from askonce.canonical.entry import Entry, Origin
from askonce.policy import revocation
from askonce.policy.revocation import Revocations
from askonce.ports import Revocation, Selector
from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from typing import Any

ANSWER, _ = read_with_facts(
    b'{"id":"c-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    b'"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}'
)
BIRTH = 100
ENTRY = Entry(
    key=b"k" * 32,
    answer=ANSWER,
    created_at=UnixTime(1000.0),
    exact_until=UnixTime(2000.0),
    semantic_until=UnixTime(0.0),
    tags=("red", "blue"),
    model="m",
    upstream="u",
    question="",
    engine_time=Seconds(1.0),
    origin=Origin(revision="r", namespace="n", tenant="t", prompt="p"),
    stamp=BIRTH,
)


def rules(*selectors: Selector) -> Revocations:
    """What a log born at 100 says."""
    known = Revocations()
    told = [
        Revocation(what=what, at=UnixTime(0), seq=BIRTH + number)
        for number, what in enumerate(selectors, 1)
    ]
    known.take(told, birth=BIRTH, last=BIRTH + len(told))
    return known


def with_(**fields: Any) -> Entry:
    """The entry with other fields."""
    from msgspec.structs import replace

    return replace(ENTRY, **fields)


def test_without_rules_everything_is_served() -> None:
    """A log without rules takes nothing back."""
    assert not rules().takes_back(ENTRY)


def test_what_is_older_than_the_log_is_taken_back() -> None:
    """Nobody knows what was said before."""
    assert rules().takes_back(with_(stamp=BIRTH - 1))


@pytest.mark.parametrize(
    "what",
    [
        Selector(),
        Selector(key=(b"k" * 32).hex()),
        Selector(model="m"),
        Selector(upstream="u"),
        Selector(revision="r"),
        Selector(namespace="n"),
        Selector(tenant="t"),
        Selector(prompt="p"),
        Selector(tag="red"),
        Selector(tag="blue"),
        Selector(model="m", tag="blue"),
        Selector(model="m", tenant="t"),
        Selector(older_than=UnixTime(1000.5)),
        Selector(model="m", older_than=UnixTime(1000.5)),
    ],
)
def test_what_matches_is_taken_back_and_what_comes_after_is_not(what: Selector) -> None:
    """A rule takes back older entries alone."""
    assert rules(what).takes_back(ENTRY)
    assert not rules(what).takes_back(with_(stamp=BIRTH + 1))


@pytest.mark.parametrize(
    "what",
    [
        Selector(key="00"),
        Selector(model="other"),
        Selector(tag="green"),
        Selector(model="m", tag="green"),
        Selector(model="other", tag="red"),
        Selector(older_than=UnixTime(1000.0)),
    ],
)
def test_what_does_not_match_is_served(what: Selector) -> None:
    """Every field that is set must match."""
    assert not rules(what).takes_back(ENTRY)


def test_an_age_stands_for_lower_ones_before_it() -> None:
    """Only the rules that can still matter are kept."""
    known = rules(
        Selector(older_than=UnixTime(900.0)),
        Selector(older_than=UnixTime(1500.0)),
        Selector(older_than=UnixTime(800.0)),
    )
    assert known.takes_back(ENTRY)
    assert not known.takes_back(with_(stamp=BIRTH + 2))
    assert known.takes_back(with_(stamp=BIRTH + 2, created_at=UnixTime(1.0)))
    assert len(known) == 1


def test_many_rules_are_shortened_to_one_that_takes_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: what is as old as forgotten rules is taken back with them."""
    monkeypatch.setattr(revocation, "MOST_RULES", 4)
    known = rules(*(Selector(model=f"m{number}") for number in range(5)))
    assert len(known) == 3
    assert known.takes_back(with_(model="another"))
    assert not known.takes_back(with_(stamp=BIRTH + 2, model="another"))
    assert known.takes_back(with_(stamp=BIRTH + 2, model="m4"))


def test_the_stamp_is_the_newest_rule() -> None:
    """New entries say what was known when they were made."""
    assert rules(Selector(), Selector()).last == BIRTH + 2


@pytest.mark.parametrize("order", [(1, 2), (2, 1), (2, 1, 2, 1)])
def test_the_order_in_which_rules_are_taken_does_not_matter(order: tuple[int, ...]) -> None:
    """Two looks at the log may overlap: an older rule that asks for less drops no newer one."""
    limits = {1: UnixTime(3000.0), 2: UnixTime(2000.0)}
    known = Revocations()
    for number in order:
        what = Selector(model="m", older_than=limits[number])
        told = Revocation(what=what, at=UnixTime(0), seq=BIRTH + number)
        known.take([told], birth=BIRTH, last=BIRTH + number)
    assert known.takes_back(with_(stamp=BIRTH + 1))
    assert not known.takes_back(with_(stamp=BIRTH + 1, created_at=UnixTime(2500.0)))
    assert known.takes_back(with_(created_at=UnixTime(2500.0)))

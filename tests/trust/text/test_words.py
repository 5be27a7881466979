"""Word forms and kinship."""

from __future__ import annotations

import pytest

from askonce.trust.text.opposites import EXCLUSIVE, OPPOSITES
from askonce.trust.text.words import exclude, excluded, form, groups, kin, stem


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("cities", "city"),
        ("carried", "carry"),
        ("stopping", "stop"),
        ("stopped", "stops"),
        ("making", "make"),
        ("leaving", "leave"),
        ("solved", "solve"),
        ("helped", "help"),
        ("boxes", "box"),
        ("classes", "class"),
        ("prices", "price"),
        ("bought", "buy"),
        ("children", "child"),
        ("agreeing", "agree"),
    ],
)
def test_inflections_share_a_stem(one: str, other: str) -> None:
    """Plural, past and -ing meet the plain word."""
    assert stem(one) == stem(other)


@pytest.mark.parametrize("word", ["bus", "glass", "this", "string", "shred", "été", "gas"])
def test_endings_that_are_no_endings_stay(word: str) -> None:
    """A word that merely looks inflected keeps its end."""
    assert stem(word) == word


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("accomodation", "accommodation"),
        ("definately", "definitely"),
        ("adress", "address"),
        ("teh" * 2, "tehthe"),
        ("renew", "renewal"),
        ("delivery", "deliver"),
        ("passwird", "password"),
        ("calender", "calendar"),
    ],
)
def test_slips_and_derived_forms_are_kin(one: str, other: str) -> None:
    """What one slip of the keys or one ending parts is one word."""
    assert kin(one, other)
    assert kin(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("router", "password"),
        ("safe", "unsafe"),
        ("install", "uninstall"),
        ("austria", "australia"),
        ("iran", "iraq"),
        ("cat", "car"),
        ("renal", "penal"),
        ("slovakia", "slovenia"),
        ("b12", "b13"),
        ("import", "export"),
    ],
)
def test_other_words_are_not_kin(one: str, other: str) -> None:
    """Likeness in spelling does not make one word of two."""
    assert not kin(one, other)


def test_synonyms_share_a_form() -> None:
    """The tables decide what means the same."""
    assert form("purchased") == form("buys")
    assert form("kids") == form("child")


def test_opposites_exclude_each_other_both_ways() -> None:
    """By table and by prefix; a word never excludes itself."""
    assert exclude(form("enable"), form("disable"))
    assert exclude("qualify", "disqualify")
    assert exclude("disqualify", "qualify")
    assert not exclude("enable", "enable")
    assert excluded("nothing-known") == frozenset()


def test_no_table_calls_two_words_the_same_and_opposite() -> None:
    """A pair of opposites never falls into one group of synonyms."""
    clashes = [pair for pair in groups(OPPOSITES) if len(set(map(form, pair.split()))) < 2]
    assert clashes == []
    doubled = [line for line in groups(EXCLUSIVE) if len(set(map(form, line.split()))) < 2]
    assert doubled == []

"""Two readings laid side by side."""

from __future__ import annotations

from askonce.trust.text.comparison import Comparison, compare
from askonce.trust.text.reading import analyse


def side_by_side(one: str, other: str) -> Comparison:
    return compare(analyse(one), analyse(other))


def test_equal_texts_leave_nothing_over() -> None:
    """What is shared is taken out on both sides."""
    pair = side_by_side("Where is my parcel?", "where's my package")
    assert (pair.only_left, pair.only_right) == (frozenset(), frozenset())
    assert (pair.alike, pair.akin) == (1.0, 1.0)


def test_empty_texts_are_alike() -> None:
    """Two texts without a word share everything they have."""
    pair = side_by_side("?", "!")
    assert (pair.alike, pair.akin) == (1.0, 1.0)


def test_a_compound_meets_its_two_parts() -> None:
    """A word written as one or as two is the same word."""
    assert side_by_side("my lunchbox", "my lunch box").hard_left == frozenset()


def test_a_compound_of_a_doubled_word_meets_both() -> None:
    """A word said twice is one form that is left over twice."""
    pair = side_by_side("what is a tu tu", "what is a tutu")
    assert (pair.only_left, pair.only_right) == (frozenset(), frozenset())


def test_a_compound_stays_when_its_parts_are_spoken_for() -> None:
    """The parts must be left over for the compound to claim them."""
    pair = side_by_side("lunch box lunchbox", "lunch box crate")
    assert pair.hard_left == {"lunchbox"}


def test_initials_meet_the_words_they_stand_for() -> None:
    """An acronym is spelt out on the other side."""
    pair = side_by_side("Do I get SSP?", "Do I get statutory sick pay?")
    assert not pair.hard_left
    assert not pair.hard_right


def test_a_misspelt_synonym_meets_its_word() -> None:
    """The slip is seen through, though the word is compared under another's form."""
    assert not side_by_side("recieve a letter", "receive a letter").hard_left

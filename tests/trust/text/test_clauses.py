"""Conversations cut into clauses."""

from __future__ import annotations

import pytest

from askonce.canonical.conversation import Turn
from askonce.trust.text.clauses import asking, clauses, names_of, words_of


def test_turns_are_cut_at_sentences_and_commas() -> None:
    """Each clause knows its speaker and its turn."""
    turns = [
        Turn("user", "Hi, it broke. Can I\nreturn it, please?"),
        Turn("assistant", "Yes; do"),
    ]
    found = clauses(turns)
    assert [each.text for each in found] == [
        "Hi", "it broke.", "Can I", "return it", "please?", "Yes", "do",
    ]  # fmt: skip
    assert [each.turn for each in found] == [0, 0, 0, 0, 0, 1, 1]
    assert [each.role for each in found][-2:] == ["assistant", "assistant"]


def test_the_same_clause_has_the_same_key() -> None:
    """Contractions, laughter and politeness make no other clause; a question mark does."""
    one, other = clauses(
        [Turn("user", "I've got 3 tickets"), Turn("user", "I have got 3 tickets lol")]
    )
    assert one.key == other.key
    said, asked = clauses([Turn("user", "it is open"), Turn("user", "it is open?")])
    assert said.key != asked.key


def test_long_turns_are_read_as_short_ones_are() -> None:
    """A turn too long to be kept is cut all the same."""
    assert len(clauses([Turn("user", "It is red. " * 200)])) == 200


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I'm sure you've won't", ("i", "am", "sure", "you", "have", "will", "not")),
        ("it's Ann's o'clock", ("it", "is", "ann", "'s", "o'clock")),
        ("-5 $3.50 PN-77", ("-5", "$", "3.50", "pn-77")),
    ],
)
def test_words_are_spelt_out(text: str, words: tuple[str, ...]) -> None:
    """Contractions are spelt out; numbers keep their signs and codes stay whole."""
    assert words_of(text) == words


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("is it open", True),
        ("ok great, can I go", True),
        ("it opens?", True),
        ("go ahead", False),
        ("do it", False),
        ("thanks", False),
        ("How exciting!", False),
        ("", False),
    ],
)
def test_questions_are_known_with_and_without_their_mark(text: str, *, asks: bool) -> None:
    """A question word or a verb in front asks, after courtesies too; an order does not."""
    assert asking(text) is asks


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We fly Aerolune to Rome on Monday", {"aerolune", "rome"}),
        ("Villa Pesto is open", {"villa", "pesto"}),
        ("My Tarnwick's lamp", {"tarnwick"}),
        ("Great", set()),
    ],
)
def test_names_are_written_with_capitals(text: str, names: set[str]) -> None:
    """The word that opens a sentence is a name only before another one; days are none."""
    assert names_of(text, opens=True) == names


def test_a_name_that_opens_no_sentence_counts_alone() -> None:
    """After a comma a capital is a name's."""
    assert names_of("Zermatt", opens=False) == {"zermatt"}


@pytest.mark.parametrize(
    "text", ["f(x, y)", "if a:\n    b, c", "a = b, c", "`a, b` it is", "it says <b>, then <i>"]
)
def test_code_is_one_clause_in_which_every_sign_counts(text: str) -> None:
    """Where spaces and signs may mean something nothing is taken apart."""
    (one,) = clauses([Turn("user", text)])
    assert one.text == text
    (other,) = clauses([Turn("user", text + " ")])
    assert one.key != other.key

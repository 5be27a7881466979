"""Chatter, and small talk about the one who answers."""

from __future__ import annotations

from typing import Literal

import pytest

from askonce.canonical.conversation import Turn
from askonce.trust.text.asides import Beside, chatter, contents
from askonce.trust.text.clauses import Clause, clauses


def clause(text: str, role: Literal["user", "assistant"] = "user") -> Clause:
    (found,) = clauses([Turn(role, text)])
    return found


@pytest.mark.parametrize(
    "text", ["Hi", "thanks so much!", "hope you're having a good day", "No problem", "so exciting!"]
)
def test_chatter_tells_nothing(text: str) -> None:
    """Greetings, thanks, wishes and moods."""
    assert chatter(clause(text))


@pytest.mark.parametrize(
    "text",
    ["it is me", "no", "yes", "today", "thanks for the blue one", "good for two", "go ahead"],
)
def test_anything_else_is_no_chatter(text: str) -> None:
    """Small words alone, answers, days, and courtesies with something in them."""
    assert not chatter(clause(text))


def test_only_who_answers_offers_help() -> None:
    """The same question from the user is about the thing."""
    text = "How can I help with the dog?"
    assert chatter(clause(text, "assistant"))
    assert not chatter(clause(text))


def test_contents_are_the_words_that_say_what_it_is_about() -> None:
    """Small words and fillers are none."""
    assert contents(["the", "refund", "is", "please"]) == contents(["refund"])


def matters(turns: list[Turn], own: list[str], text: str = "Is it open?") -> list[str]:
    """Which of a history's own clauses matter to the question."""
    said = clauses(turns)
    common = [each for each in said if each.text not in own]
    rest = [each for each in said if each.text in own]
    beside = Beside(text, said, common, rest)
    return [each.text for each in rest if not beside.matters_not(each)]


OFFER = Turn("assistant", "I could upgrade you.")
ASKED = Turn("assistant", "Shall I upgrade you?")
PLAIN = Turn("assistant", "The bar is upstairs.")


@pytest.mark.parametrize("offer", [OFFER, ASKED])
@pytest.mark.parametrize("reply", ["great", "ok thanks", "thanks"])
def test_chatter_after_an_offer_may_accept_it(offer: Turn, reply: str) -> None:
    """A reply of nothing but courtesies is an answer where one was waited for."""
    assert matters([offer, Turn("user", reply)], [reply]) == [reply]
    assert matters([PLAIN, Turn("user", reply)], [reply]) == []


def test_thanks_beside_an_answer_accept_nothing() -> None:
    """Where the reply itself is in both histories, thanks add nothing to it; a "great" may."""
    assert matters([ASKED, Turn("user", "no, thanks")], ["thanks"]) == []
    assert matters([ASKED, Turn("user", "the bar, great")], ["great"]) == ["great"]


def test_a_reply_may_be_to_the_latest_courtesy() -> None:
    """ "Yes" after "Anything else?" is another one than "yes" before it."""
    turns = [Turn("assistant", "The bar is upstairs. Anything else?")]
    assert matters(turns, ["Anything else?"], "yes") == ["Anything else?"]
    assert matters(turns, ["Anything else?"], "where is it?") == []


def test_small_talk_and_its_answer_matter_not() -> None:
    """A question about the one who answers, as far as the answer is about that."""
    turns = [PLAIN, Turn("user", "are you a robot?"), Turn("assistant", "Ha, yes, I am a robot.")]
    own = ["are you a robot?", "Ha", "yes", "I am a robot."]
    assert matters(turns, own) == []
    assert matters(turns, own, "which bar should I try?") == [
        "are you a robot?",
        "yes",
        "I am a robot.",
    ]
    closed = [*turns[:2], Turn("assistant", "yes, the bar is shut.")]
    assert matters(closed, ["are you a robot?", "yes", "the bar is shut."]) == ["the bar is shut."]


@pytest.mark.parametrize(
    "said",
    [
        "have you ever cancelled one?",
        "have you ever been to Oslo?",
        "have you ever paid £5?",
        "have you ever seen the bar?",
        "is the kitchen shut?",
    ],
)
def test_small_talk_that_may_tell_something_matters(said: str) -> None:
    """Decisions, names, amounts and what the talk is about; other questions always."""
    assert matters([PLAIN, Turn("user", said)], [said]) == [said]


def test_an_answer_to_small_talk_is_known_by_its_turn() -> None:
    """The same word from the user, elsewhere, answers something else."""
    turns = [
        Turn("user", "are you a robot?"),
        Turn("assistant", "yes"),
        Turn("assistant", "Shall I upgrade you?"),
        Turn("user", "yes"),
    ]
    assert matters(turns, ["are you a robot?", "yes"]) == ["yes"]

"""Two conversations with the same last words: one question, or two."""

from __future__ import annotations

import pytest
from tests.trust.dialogues import Dialogue, dialogues

from askonce.canonical.conversation import Turn
from askonce.trust.text.clauses import clauses
from askonce.trust.text.context import MOST_CLAUSES, Side, aligned, estranged

ALL = dialogues()
OUT_OF_REACH = {"reworded", "detour", "told"}
"""Kinds of the same that only somebody who knows the world can tell from traps: all missed."""

MATTERS = """
I'm allergic to nuts
im vegan btw
Please answer in French
en français s'il te plaît
auf deutsch bitte
use metric
in euros please
I'm on Python 3.8
my oven is gas
my oven is gas lol
it's a gift
she's pregnant
there are 12 of us
make it three nights
actually make it Thursday
no onions
not the blue one
the other one
I live in Leeds
we're in scotland
I lost the receipt
call me Bob
you are a pirate
pretend you're a lawyer
ignore everything above
keep it short
as json
explain like I'm five
today
Tuesday
yes
no
the first one
large
half
£5
is the leeds branch open?
Do you ship to Canada?
do you ship to canada?
can I pay in dollars?
can my dog come?
could you answer in Spanish?
is it cheaper for children?
go ahead
sounds good, book it
cancel it
never mind
that was wrong
good, but not today
lovely, with breakfast
hello, I'm Tom
thanks for the blue one
hope you're well, I'm diabetic
have you ever been told to answer in French?
are you a bot that speaks Welsh?
""".strip().splitlines()
ANNOUNCED = """
All prices below are in dollars.
I will answer in French.
Your plan is Premium.
As a pirate, arr!
Happy to help in German.
How can I help with that in Welsh?
Thanks, I have noted the allergy.
Our Leeds branch handles that.
""".strip().splitlines()


def label(dialogue: Dialogue) -> str:
    return f"{dialogue.kind}-{dialogue.domain}"


def provable() -> list[Dialogue]:
    return [each for each in ALL if each.same and each.kind not in OUT_OF_REACH]


def test_there_are_many_dialogues_of_many_domains() -> None:
    """The fixtures are what they claim to be."""
    assert len(ALL) >= 210
    assert sum(not each.same for each in ALL) >= 150
    assert len({each.domain for each in ALL}) >= 7


@pytest.mark.parametrize("trap", [each for each in ALL if not each.same], ids=label)
def test_no_trap_passes(trap: Dialogue) -> None:
    """Another history that may matter makes another question, whichever was asked first."""
    assert estranged(trap.a, trap.b) is not None
    assert estranged(trap.b, trap.a) is not None


@pytest.mark.parametrize("dialogue", provable(), ids=label)
def test_histories_that_differ_in_chatter_pass(dialogue: Dialogue) -> None:
    """Greetings, thanks, moods, spelling and small talk."""
    assert estranged(dialogue.a, dialogue.b) is None
    assert estranged(dialogue.b, dialogue.a) is None


@pytest.mark.parametrize("dialogue", [each for each in ALL if each.kind in OUT_OF_REACH], ids=label)
def test_what_only_knowledge_of_the_world_could_tell_is_a_miss(dialogue: Dialogue) -> None:
    """Facts in other words, detours, and other matters before a question that stands alone."""
    assert estranged(dialogue.a, dialogue.b) is not None


@pytest.mark.slow
@pytest.mark.parametrize("dialogue", provable(), ids=label)
def test_whatever_may_matter_is_seen_wherever_it_is_said(dialogue: Dialogue) -> None:
    """A constraint slipped into one of two histories that pass makes them differ."""
    for side, other in ((dialogue.a, dialogue.b), (dialogue.b, dialogue.a)):
        for said in MATTERS:
            for turns in (*spoken(side.turns, said), *joined(side.turns, said, "user")):
                assert estranged(Side(side.text, turns), other) is not None, (said, turns)
        for told in ANNOUNCED:
            for turns in joined(side.turns, told, "assistant"):
                assert estranged(Side(side.text, turns), other) is not None, (told, turns)


def spoken(turns: tuple[Turn, ...], said: str) -> list[tuple[Turn, ...]]:
    """The history with an exchange more, at every place."""
    places = [at for at in range(len(turns) + 1) if at == len(turns) or turns[at].role == "user"]
    return [
        (*turns[:at], Turn("user", said), Turn("assistant", reply), *turns[at:])
        for at in places
        for reply in ("Okay.", "Lovely, thanks!")
    ]


def joined(turns: tuple[Turn, ...], said: str, role: str) -> list[tuple[Turn, ...]]:
    """The history with a turn made longer by it, in front and behind."""
    longer = []
    for at, turn in enumerate(turns):
        if turn.role == role:
            end = "" if turn.text[-1] in ".!?" else "."
            longer += [
                (*turns[:at], Turn(turn.role, text), *turns[at + 1 :])
                for text in (f"{turn.text}{end} {said}", f"{said}, {turn.text}")
            ]
    return longer


def test_equal_histories_are_not_even_read() -> None:
    """Nothing can be said against a history that is the same."""
    turns = (Turn("user", "Answer in French."), Turn("assistant", "Oui."))
    assert estranged(Side("and now?", turns), Side("and now?", turns)) is None


@pytest.mark.parametrize(
    ("one", "other", "question", "why"),
    [
        ("Answer in French.", "hi", "Who wrote it?", "standing"),
        ("My oven is old-fashioned.", "hi", "How hot?", "beyond"),
        ("hi", "hello", "What did I say first?", "recalling"),
        ("hi. " * (MOST_CLAUSES + 1), "hello", "Who wrote Hamlet?", "long"),
        ("What is a - b", "What is a, b", "And twice that?", "beyond"),
        ("if x:\n  y\nz", "if x:\n  y\n  z", "What does it do?", "beyond"),
    ],
)
def test_the_reason_is_told(one: str, other: str, question: str, why: str) -> None:
    """What sets two histories apart has a name."""
    sides = [Side(question, (Turn("user", text),)) for text in (one, other)]
    assert estranged(*sides) == why


def test_small_talk_is_nothing_the_next_words_may_mean() -> None:
    """After small talk alone a question may mean that, so the matter must come back first."""
    matter = (Turn("user", "I bought a coat."), Turn("assistant", "Great."))
    aside = (Turn("user", "are you a robot?"), Turn("assistant", "Ha, yes!"))
    back = (Turn("user", "the blue one"),)
    text = "Can I return it?"
    assert estranged(Side(text, (*matter, *aside)), Side(text, matter)) == "latest"
    assert estranged(Side(text, (*matter, *aside, *back)), Side(text, (*matter, *back))) is None


def test_clauses_that_pass_for_one_are_shared_and_look_alikes_are_not() -> None:
    """Guards look at every pair of clauses that are not letter for letter the same."""
    one = clauses([Turn("user", "I like turkey. We've a car. send it to us.")])
    other = clauses([Turn("user", "I like Turkey. we have a car. send it to US.")])
    for history in aligned(one, other):
        assert [each.text.lower() for each in history.own] == ["i like turkey.", "send it to us."]
        assert len(history.common) == 1


@pytest.mark.parametrize(("one", "other"), [(":)", ":("), ("\n \n`", "'")])
def test_a_turn_of_signs_alone_is_something_said(one: str, other: str) -> None:
    """A smile answers a question, and breaks no reader."""
    asked = Turn("assistant", "How was the film?")
    question = "Shall we book it for the others?"
    first, second = (Side(question, (asked, Turn("user", text))) for text in (one, other))
    assert estranged(first, second) is not None


def test_a_turn_of_white_space_says_nothing() -> None:
    """However it is made."""
    side = Side("Is it blue?", (Turn("user", "\n \n"),))
    assert estranged(side, Side("Is it blue?", ())) is None

"""What a conversation says beside the point: chatter, and small talk about the one who answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.trust.text.clauses import asking, names_of, words_of
from askonce.trust.text.comparison import SOFT_FORMS
from askonce.trust.text.lexicon import FILLERS
from askonce.trust.text.small_talk import (
    ABOUT_ITSELF,
    CHATTER,
    CLOTHES,
    COURTESIES,
    DECIDING,
    GLUE,
    NEUTRAL,
    OFFERING,
    OPEN,
    OUTDOORS,
    REPLYING,
    SERVICE,
    SMALL_TALK,
    WEATHER,
)
from askonce.trust.text.words import form

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from askonce.trust.text.clauses import Clause

_CURT = 2


def chatter(clause: Clause) -> bool:
    """Greetings, thanks and the like, which tell and ask nothing."""
    text = SERVICE.sub(" thanks ", clause.text) if clause.role == "assistant" else clause.text
    rest, courtesies = COURTESIES.subn(" ", text)
    words = clause.words if rest == clause.text else words_of(rest)
    return CHATTER.issuperset(words) and bool(courtesies or not GLUE.issuperset(words))


def contents(words: Iterable[str]) -> frozenset[str]:
    """The forms of words that say what it is about."""
    return frozenset(form(word) for word in words if word not in FILLERS) - SOFT_FORMS


class Beside:
    """Tells what of one history's own clauses matters to no answer."""

    def __init__(
        self, text: str, said: Sequence[Clause], common: Sequence[Clause], own: Sequence[Clause]
    ) -> None:
        """text: the question; common: what the other history has as well, own: what it has not."""
        words = words_of(text)
        asks = asking(text)
        self._replied = {each.turn - 1 for each in said if _replies(each)}
        if not asks:
            self._replied.add(said[-1].turn)
        self._topics = contents(words).union(*(contents(clause.words) for clause in common))
        self._known = names_of(text, opens=True).union(*(clause.names for clause in common))
        self._joined = {clause.turn for clause in common}
        self._offered = {clause.turn + 1 for clause in said if _offers(clause)}
        self._asides = self._among(own) if asks and OPEN.isdisjoint(words) else frozenset()
        indoors = (OUTDOORS | CLOTHES).isdisjoint(words) and all(map(_indoors, common))
        self._indifferent = indoors and asks and OPEN.isdisjoint(words)

    def matters_not(self, clause: Clause) -> bool:
        """Whether no answer to the question depends on this clause."""
        if self.idle(clause):
            return not self._answers(clause)
        return (clause.turn, clause.text) in self._asides

    def idle(self, clause: Clause) -> bool:
        """Whether a clause is chatter, here."""
        about_weather = self._indifferent and WEATHER.fullmatch(clause.text) is not None
        return about_weather or chatter(clause)

    def _answers(self, clause: Clause) -> bool:
        """Whether chatter may accept an offer, or be what the question itself replies to."""
        if clause.role == "assistant":
            return clause.asks and clause.turn in self._replied
        if clause.turn not in self._offered:
            return False
        return clause.turn not in self._joined or not NEUTRAL.issuperset(clause.words)

    def _among(self, own: Sequence[Clause]) -> frozenset[tuple[int, str]]:
        """Clauses of small talk, and what is said in answer to it, each with its turn."""
        begun = [
            clause
            for clause in own
            if clause.role == "user" and SMALL_TALK.match(clause.text) and not self._tells(clause)
        ]
        turns = {clause.turn + 1 for clause in begun}
        answers = [
            clause
            for clause in own
            if clause.role == "assistant"
            and clause.turn in turns
            and ABOUT_ITSELF.issuperset(clause.words)
        ]
        return frozenset((clause.turn, clause.text) for clause in (*begun, *answers))

    def _tells(self, clause: Clause) -> bool:
        """Whether a clause may change what is asked for."""
        words = set(clause.words)
        amounts = any(char.isdigit() or char in "$\u20ac\u00a3\u00a5%" for char in clause.text)
        names = clause.names - self._known
        return bool(words & DECIDING or amounts or names or contents(words) & self._topics)


def _indoors(clause: Clause) -> bool:
    return OUTDOORS.isdisjoint(clause.words)


def _offers(clause: Clause) -> bool:
    """Whether a turn with this clause leaves something to be accepted."""
    if clause.role == "user" or not (clause.asks or OFFERING & set(clause.words)):
        return False
    return not chatter(clause)


def _replies(clause: Clause) -> bool:
    """Whether a user's clause is what a question before it makes of it."""
    if clause.role == "assistant" or clause.asks:
        return False
    return clause.words[0] in REPLYING or (len(clause.words) <= _CURT and not chatter(clause))

"""Whether two questions that are one by their own words follow from histories that leave them one.

Two questions pass unless a guard speaks against them; two histories do not. Every clause of either
must be in the other one as well, said by the same speaker and in the same order, or be shown to
matter to no answer: chatter, and small talk about the one who answers. A question that seems to
need no history is no exception: what was talked about may narrow it.
"""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

from askonce.trust.text.asides import Beside
from askonce.trust.text.clauses import Clause, clauses, words_of
from askonce.trust.text.guards import veto
from askonce.trust.text.lexicon import CASED
from askonce.trust.text.small_talk import PROFILE, RECALLING, STANDING

if TYPE_CHECKING:
    from askonce.canonical.conversation import Turn


MOST_CLAUSES = 200
"""Of a history; aligning two takes the square of it at worst."""


class Side(NamedTuple):
    """A question and what was said before it."""

    text: str
    turns: tuple[Turn, ...]


class History(NamedTuple):
    """The clauses before a question, and the places of those that the other history has as well."""

    clauses: list[Clause]
    shared: frozenset[int]

    @property
    def own(self) -> list[Clause]:
        """What the other one has not."""
        return [clause for at, clause in enumerate(self.clauses) if at not in self.shared]

    @property
    def common(self) -> list[Clause]:
        """What both have."""
        return [self.clauses[at] for at in sorted(self.shared)]


def estranged(asked: Side, cached: Side) -> str | None:
    """Why two questions that are one by their own words are not one here; None if they are.

    The lengths of the histories are bounded by `canonical.conversation`; the time it takes grows
    with their product at worst, and hardly at all with what they have in common.
    """
    if asked.turns == cached.turns:
        return None
    if RECALLING & {*words_of(asked.text), *words_of(cached.text)}:
        return "recalling"
    read = clauses(asked.turns), clauses(cached.turns)
    if max(map(len, read)) > MOST_CLAUSES:
        return "long"
    one, other = aligned(*read)
    return _beyond(asked.text, one) or _beyond(cached.text, other)


def aligned(one: list[Clause], other: list[Clause]) -> tuple[History, History]:
    """Pair the clauses that say the same, in order."""
    keys = [(each.role, each.key) for each in one], [(each.role, each.key) for each in other]
    blocks = SequenceMatcher(None, *keys, autojunk=False).get_matching_blocks()
    pairs = [(block.a + step, block.b + step) for block in blocks for step in range(block.size)]
    alike = [(a, b) for a, b in pairs if _same(one[a], other[b])]
    first = History(one, frozenset(a for a, _ in alike))
    return first, History(other, frozenset(b for _, b in alike))


def _same(one: Clause, other: Clause) -> bool:
    if one.text == other.text:
        return True
    return not (one.names ^ other.names) & CASED and veto(one.text, other.text) is None


def _beyond(text: str, history: History) -> str | None:
    """What a history has beyond the other one that may matter to its question, if anything does."""
    own = history.own
    if not own:
        return None
    if any((STANDING | PROFILE) & set(clause.words) for clause in own):
        return "standing"
    beside = Beside(text, history.clauses, history.common, own)
    if not all(map(beside.matters_not, own)):
        return "beyond"
    return None if _ends_shared(history, beside) else "latest"


def _ends_shared(history: History, beside: Beside) -> bool:
    """Whether the latest that was said, but for chatter, was said in the other history as well."""
    for at in range(len(history.clauses) - 1, -1, -1):
        if at in history.shared:
            return True
        if not beside.idle(history.clauses[at]):
            return False
    return True

"""Which stored entries have the same answer, as far as the judge has said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LINKS = 2
"""Fresh answers that must have joined two groups before they count as one."""
_DOUBT = 4
"""So many times more joined than parted: a judge that errs now and then merges nothing."""
_MOST_TALLIES = 4096


class Answers:
    """Ids of answers: equal ids, same answer; ids of groups found to be one become equal."""

    def __init__(self) -> None:
        """Know no answers."""
        self._fresh = 0
        self._parents: dict[int, int] = {}
        self._tallies: dict[tuple[int, int], list[int]] = {}

    def resolve(self, answer: int) -> int:
        """The id that this one goes by now."""
        while answer in self._parents:
            answer = self._parents[answer]
        return answer

    def place(self, near: Sequence[int], same: Sequence[bool | None]) -> int:
        """The id of a fresh answer, by the judge's verdicts on its neighbours' answers."""
        votes: dict[int, list[int]] = {}
        for answer, label in zip(near, same, strict=True):
            if label is not None:
                votes.setdefault(self.resolve(answer), [0, 0])[label] += 1
        joined = [answer for answer, (no, yes) in votes.items() if yes > no]
        self._tally(votes, joined)
        if not joined:
            self._fresh += 1
            return self._fresh
        return self.resolve(max(joined, key=lambda answer: votes[answer][1]))

    def _tally(self, votes: dict[int, list[int]], joined: Sequence[int]) -> None:
        """Note which groups this answer joined or parted, and merge those joined often enough."""
        for one in joined:
            for other in votes:
                if other == one or (other in joined and other < one):
                    continue
                pair = (min(one, other), max(one, other))
                tally = self._tallies.setdefault(pair, [0, 0])
                tally[other in joined] += 1
                if tally[1] >= _LINKS and tally[1] >= _DOUBT * tally[0]:
                    self._merge(pair)
        while len(self._tallies) > _MOST_TALLIES:
            del self._tallies[next(iter(self._tallies))]

    def _merge(self, pair: tuple[int, int]) -> None:
        low, high = map(self.resolve, pair)
        if low != high:
            self._parents[max(low, high)] = min(low, high)
        self._tallies.pop(pair, None)

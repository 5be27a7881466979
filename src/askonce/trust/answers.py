"""Which entries give the same answer, as far as judges have said so.

A judge errs now and then, and one stray verdict must not make one group of two: an answer goes
where most verdicts put it, and groups merge only when several answers have joined them. Merging on
every verdict cost a quarter of the hits with a judge that errs in 5 % of its verdicts.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINKS = 2
"""Answers that must have joined two groups before they count as one."""
_DOUBT = 4
"""So many times as many must have joined as parted them."""
_MOST_TALLIES = 4096


class SameAnswers:
    """Groups of entries and questions; bounded, the longest unused leave first.

    A question and the entry that it became are one thing under two names.
    """

    def __init__(self, limit: int = 20_000) -> None:
        """limit: names remembered."""
        self._limit = limit
        self._group_of: OrderedDict[bytes, int] = OrderedDict()
        self._members: dict[int, set[bytes]] = {}
        self._tallies: OrderedDict[tuple[int, int], list[int]] = OrderedDict()
        self._next = 0

    def __len__(self) -> int:
        """How many names are known."""
        return len(self._group_of)

    def place(self, question: bytes, said: Mapping[bytes, bool]) -> None:
        """Put a question where most verdicts on entries' answers put it: same, or not."""
        votes: dict[int, list[int]] = {}
        for entry, same in said.items():
            votes.setdefault(self._own_group(entry), [0, 0])[same] += 1
        joined = [group for group, (no, yes) in votes.items() if yes > no]
        if joined:
            self._put(question, max(joined, key=lambda group: votes[group][1]))
        for one in joined:
            for other in votes:
                if other not in joined or one < other:
                    self._tally(min(one, other), max(one, other), met=other in joined)

    def join(self, one: bytes, other: bytes) -> None:
        """Both are known to give the same answer; a group keeps its id when a name comes to it."""
        if one not in self._group_of and other in self._group_of:
            one, other = other, one
        group = self._own_group(one)
        if other in self._group_of:
            self._merge(group, self._group_of[other])
        else:
            self._put(other, group)

    def of(self, entry: bytes, question: bytes) -> int | bytes:
        """The same for two entries that give the same answer; the entry's own key if none does."""
        known = entry in self._group_of, question in self._group_of
        if not any(known):
            return entry
        if known != (True, True) or self._group_of[entry] != self._group_of[question]:
            self.join(entry, question)
        return self._group_of[entry]

    def forget(self, name: bytes) -> None:
        """Take one out of its group."""
        group = self._group_of.pop(name, None)
        if group is not None:
            self._members[group].discard(name)
            if not self._members[group]:
                del self._members[group]

    def _own_group(self, name: bytes) -> int:
        group = self._group_of.get(name)
        if group is not None:
            self._group_of.move_to_end(name)
            return group
        self._next += 1
        self._put(name, self._next)
        return self._next

    def _put(self, name: bytes, group: int) -> None:
        """Move a name, known or not, into a group."""
        self.forget(name)
        while len(self._group_of) >= self._limit:
            self.forget(next(iter(self._group_of)))
        self._group_of[name] = group
        self._members.setdefault(group, set()).add(name)

    def _tally(self, one: int, other: int, *, met: bool) -> None:
        """Note that an answer joined, or parted, two groups; merge those joined often enough."""
        tally = self._tallies.setdefault((one, other), [0, 0])
        tally[met] += 1
        if tally[1] >= _LINKS and tally[1] >= _DOUBT * tally[0]:
            del self._tallies[one, other]
            self._merge(one, other)
        if len(self._tallies) > _MOST_TALLIES:
            self._tallies.popitem(last=False)

    def _merge(self, one: int, other: int) -> None:
        if one == other or not {one, other} <= self._members.keys():
            return
        small, large = sorted((one, other), key=lambda group: len(self._members[group]))
        for name in self._members.pop(small):
            self._group_of[name] = large
            self._members[large].add(name)

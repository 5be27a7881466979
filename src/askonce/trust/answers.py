"""Which entries give the same answer, as far as judges have said so."""

from __future__ import annotations

from collections import OrderedDict


class SameAnswers:
    """Groups of entries and questions; bounded, the longest unused leave first.

    A question and the entry that it became are one thing under two names.
    """

    def __init__(self, limit: int = 20_000) -> None:
        """limit: names remembered."""
        self._limit = limit
        self._group_of: OrderedDict[bytes, int] = OrderedDict()
        self._members: dict[int, set[bytes]] = {}
        self._next = 0

    def __len__(self) -> int:
        """How many names are known."""
        return len(self._group_of)

    def join(self, one: bytes, other: bytes) -> None:
        """Both give the same answer."""
        left, right = self._own_group(one), self._own_group(other)
        if left == right:
            return
        small, large = sorted((left, right), key=lambda group: len(self._members[group]))
        for name in self._members.pop(small):
            self._group_of[name] = large
            self._members[large].add(name)

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
        while len(self._group_of) >= self._limit:
            self.forget(next(iter(self._group_of)))
        group = self._next
        self._next += 1
        self._group_of[name] = group
        self._members[group] = {name}
        return group

"""Which entries have been taken back: rules in the order they were made, and entries' stamps.

Each entry carries the number of the last rule that its writer knew when it asked the engine. A
rule takes back what it matches among entries with a smaller number, so taking back a model's
answers costs one rule however many there are, no clocks are compared, and what was under way when
the rule was made is taken back as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from askonce.canonical.entry import Entry
    from askonce.ports import Revocation

MOST_RULES = 10_000
"""Past it the older half is replaced by one rule that takes back all that is as old."""


_FACETS = ("key", "model", "upstream", "revision", "namespace", "tenant", "prompt", "tag")
_TAG = _FACETS.index("tag")

_Values = tuple[str | None, ...]
"""By facet; None where any value will do."""


class _Taken:
    """The newest rules with the same values."""

    __slots__ = ("aged", "seq")

    def __init__(self) -> None:
        self.seq = 0
        """Of the newest rule for answers of any age."""
        self.aged: dict[float, int] = {}
        """Of the newest rule by the age it asks for."""

    def age(self, limit: float, seq: int) -> None:
        """Take one that asks for an age, unless a known one stands for it, and drop the reverse."""
        if any(other >= limit and known >= seq for other, known in self.aged.items()):
            return
        self.aged = {
            other: known for other, known in self.aged.items() if other > limit or known > seq
        }
        self.aged[limit] = seq

    def takes(self, entry: Entry) -> bool:
        """Whether one of them is newer than the entry."""
        if entry.stamp < self.seq:
            return True
        return any(
            entry.stamp < seq and entry.created_at < limit for limit, seq in self.aged.items()
        )


class Revocations:
    """Rules, looked up by what an entry is: the cost grows with the kinds of rules, not with them.

    Unknown before the first `take`: then nothing is served.
    """

    def __init__(self) -> None:
        """Know no rule."""
        self._taken: dict[_Values, _Taken] = {}
        self._shapes: dict[tuple[bool, ...], None] = {}
        self._birth = 0
        self.last = 0
        """The newest rule; what new entries are stamped with."""

    def take(self, rules: Iterable[Revocation], *, birth: int, last: int) -> None:
        """Take further rules.

        birth: rules up to this number are not known any more. last: the newest rule's number.
        """
        self._birth = max(self._birth, birth)
        for rule in rules:
            self._add(rule)
        self.last = max(self.last, last)
        if len(self._taken) > MOST_RULES:
            self._shorten()

    def takes_back(self, entry: Entry) -> bool:
        """Whether the entry must not be served any more."""
        if entry.stamp < self._birth:
            return True
        if not self._taken:
            return False
        for values in self._values(entry):
            taken = self._taken.get(values)
            if taken is not None and taken.takes(entry):
                return True
        return False

    def __len__(self) -> int:
        """How many different rules are in force."""
        return len(self._taken)

    def _add(self, rule: Revocation) -> None:
        values = tuple(getattr(rule.what, facet) for facet in _FACETS)
        self._shapes[tuple(value is not None for value in values)] = None
        taken = self._taken.setdefault(values, _Taken())
        if rule.what.older_than is None:
            taken.seq = max(taken.seq, rule.seq)
        else:
            taken.age(rule.what.older_than, rule.seq)

    def _values(self, entry: Entry) -> Iterator[_Values]:
        """What a rule of each shape would have to say to match."""
        told = _told(entry, spelt=any(shape[0] for shape in self._shapes))
        for shape in self._shapes:
            asked = tuple(value if asks else None for value, asks in zip(told, shape, strict=True))
            if not shape[_TAG]:
                yield asked
                continue
            for tag in entry.tags:
                yield (*asked[:_TAG], tag, *asked[_TAG + 1 :])

    def _shorten(self) -> None:
        newest = sorted(self._taken.items(), key=lambda item: _newest(item[1]))
        gone = newest[: len(newest) // 2]
        self._birth = max(self._birth, _newest(gone[-1][1]))
        self._taken = dict(newest[len(gone) :])
        self._shapes = {tuple(v is not None for v in values): None for values in self._taken}


def _newest(taken: _Taken) -> int:
    return max([taken.seq, *taken.aged.values()])


def _told(entry: Entry, *, spelt: bool) -> _Values:
    """Its facets; the key is spelt only where a rule names one."""
    origin = entry.origin
    return (
        entry.key.hex() if spelt else None,
        entry.model,
        entry.upstream,
        origin.revision,
        origin.namespace,
        origin.tenant,
        origin.prompt,
        None,
    )

"""Several budgets on one stream at once: until two decide differently, one mind serves both.

Most of the time goes into looking and learning, of which the budget changes nothing before the
first hit that another would not have served. Each comes to what it would have come to alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from askonce.lab.measured import Once
from askonce.lab.mind import Known, Mind
from askonce.lab.stream import Log

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from askonce.lab.live import Decided, Live
    from askonce.lab.measured import Sight
    from askonce.lab.mind import View
    from askonce.lab.stream import Judge, Near, Neighbourhood


class Track(NamedTuple):
    """Players that have done the same so far, by their place among all; what they share."""

    lives: dict[int, Live]
    judge: Judge
    mind: Mind
    stored: NDArray[np.bool_]

    def parted(self, keys: Mapping[int, Hashable]) -> list[Track]:
        """One for each different key of its players; this one where there is but one."""
        kinds = list(dict.fromkeys(keys.values()))
        if len(kinds) == 1:
            return [self]
        return [
            Track(
                {at: live for at, live in self.lives.items() if keys[at] == kind},
                self.judge,
                self.mind if kind == kinds[0] else self.mind.copy(),
                self.stored if kind == kinds[0] else self.stored.copy(),
            )
            for kind in kinds
        ]


class Troupe(NamedTuple):
    """Players that hear the same judge."""

    lives: Sequence[Live]
    judge: Judge


class Together:
    """One order of questions, sent through many players."""

    def __init__(
        self, troupes: Sequence[Troupe], sight: Sight, groups: Sequence[Hashable], remembered: int
    ) -> None:
        """Players fresh; remembered: as `Manners.remembered`."""
        self._groups = groups
        self._count = 0
        self._tracks: list[Track] = []
        once = Once(sight)
        for lives, judge in troupes:
            places = range(self._count, self._count + len(lives))
            stored = np.zeros(len(groups), dtype=np.bool_)
            mind = Mind(once, Known(sight.dim, remembered))
            self._tracks.append(Track(dict(zip(places, lives, strict=True)), judge, mind, stored))
            self._count += len(lives)

    def play(self, order: NDArray[np.int64], neighbourhood: Neighbourhood, k: int = 8) -> list[Log]:
        """As `stream.play`: a log for each player, troupe by troupe."""
        logs = [
            Log(*(np.zeros(len(order), dtype=np.bool_) for _ in Log._fields))
            for _ in range(self._count)
        ]
        for place, query in enumerate(order.tolist()):
            tracks: list[Track] = []
            for track in self._tracks:
                near = neighbourhood.near(query, track.stored, k)
                view = track.mind.view(query, near)
                decided = {at: live.decide(query, view) for at, live in track.lives.items()}
                for at, each in decided.items():
                    self._note(logs[at], place, query, near, each)
                seen = {at: (each.choice, each.chance) for at, each in decided.items()}
                for part in track.parted(seen):
                    tracks += _taught(part, query, near, view, decided)
            self._tracks = tracks
        return logs

    def _note(self, log: Log, place: int, query: int, near: Near, decided: Decided) -> None:
        serve, log.audited[place] = decided.choice
        if serve >= 0:
            log.hit[place] = True
            log.wrong[place] = self._groups[near.rows[serve]] != self._groups[query]


def _taught(
    track: Track, query: int, near: Near, view: View | None, decided: dict[int, Decided]
) -> list[Track]:
    """The track with what it now knows; in two where but some take the labels for a drift."""
    choice, chance, _ = decided[next(iter(track.lives))]
    if choice.serve < 0:
        track.stored[query] = True
        track.mind.store(query)
    if view is None or not (choice.serve < 0 or choice.audited):
        return [track]
    same = np.array([track.judge(query, row) for row in near.rows.tolist()], dtype=np.bool_)
    told = same[view.kept]
    drifts = {at: live.note(view, told, decided[at]) for at, live in track.lives.items()}
    parts = track.parted(drifts)
    for part in parts:
        if drifts[next(iter(part.lives))]:
            part.mind.drift()
        part.mind.learn(query, view, told, 1 / chance)
    return parts

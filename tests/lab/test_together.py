"""Many players on one stream at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.lab.made import faq

from askonce.lab.live import Live
from askonce.lab.mind import Mind
from askonce.lab.stream import by_group, erring, shuffled
from askonce.lab.together import Together, Troupe
from askonce.trust.account.budget import Budget
from askonce.trust.account.ledger import Ledger, Policy
from askonce.trust.sight import Manners
from askonce.units import Cosine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.lab.jobs import Questions
    from askonce.lab.stream import Log
    from askonce.trust.account.asked import Place
    from askonce.trust.account.evidence import Label

_SHARES = (0.01, 0.05, 0.3, 0.5)


class Startled(Ledger):
    """Takes its second label for a drift."""

    def __init__(self, policy: Policy, seed: bytes) -> None:
        super().__init__(policy, seed)
        self.labels = 0

    def learn(self, place: Place, label: Label) -> bool:
        """As a ledger, but for the second."""
        self.labels += 1
        return super().learn(place, label) or self.labels == 2


def _troupe(
    asked: Questions, shares: Sequence[float], errs: float = 0.0, kind: type[Ledger] = Ledger
) -> Troupe:
    manners = Manners(floor=Cosine(0.9), enough=40.0)
    judge = by_group(asked.groups)
    return Troupe(
        [
            Live(asked.words, kind(Policy(budget=Budget(share)), b"5"), manners, 5)
            for share in shares
        ],
        erring(judge, errs, 5) if errs else judge,
    )


def _played(asked: Questions, *troupes: Troupe) -> list[Log]:
    together = Together(troupes, asked.sight, asked.groups, 8000)
    return together.play(shuffled(len(asked.groups), 5), asked.neighbourhood, 8)


def _same(one: Log, other: Log) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.slow
def test_each_comes_to_what_it_would_have_come_to_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether its judge errs or not, and whoever parts from it on the way."""
    asked = faq(260)
    alone = [
        _played(asked, _troupe(asked, [share], errs))[0] for errs in (0.0, 0.1) for share in _SHARES
    ]
    copied, copies = Mind.copy, []

    def noted(mind: Mind) -> Mind:
        copies.append(mind)
        return copied(mind)

    monkeypatch.setattr(Mind, "copy", noted)
    logs = _played(asked, _troupe(asked, _SHARES), _troupe(asked, _SHARES, 0.1))
    assert all(_same(one, other) for one, other in zip(logs, alone, strict=True))
    assert len({log.hit.sum() for log in logs[: len(_SHARES)]}) > 1
    assert copies


def test_players_part_where_one_takes_a_label_for_a_drift() -> None:
    """The other goes on with what was stored before."""
    asked = faq(60)
    steady, startled = _troupe(asked, [0.05]), _troupe(asked, [0.05], kind=Startled)
    alone = [_played(asked, steady)[0], _played(asked, startled)[0]]
    mixed = Troupe(
        [*_troupe(asked, [0.05]).lives, *_troupe(asked, [0.05], kind=Startled).lives],
        by_group(asked.groups),
    )
    logs = _played(asked, mixed)
    assert all(_same(one, other) for one, other in zip(logs, alone, strict=True))

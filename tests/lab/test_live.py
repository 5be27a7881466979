"""The live desk's rule as a player."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from askonce.lab.live import Decided, Live
from askonce.lab.measured import Direct
from askonce.lab.mind import Known, Mind
from askonce.lab.stream import Choice, Near
from askonce.trust.account.budget import Decision
from askonce.trust.account.ledger import Ledger, Policy
from askonce.trust.account.thrift import Thrift
from askonce.trust.alignment import pack
from askonce.trust.sight import Manners
from askonce.trust.text.reading import analyse
from askonce.trust.verifier import Text
from askonce.units import Cosine

if TYPE_CHECKING:
    import pytest

_WORDS = (
    "How do I reset my password?",
    "how do I reset my password",
    "How do I reset my router?",
    "How do I reset my passwords?",
)


PLENTY = Thrift(of_hits=float("inf"), of_requests=float("inf"))


class Player:
    """One player with a mind of its own, asked by hand."""

    def __init__(self, **manners: float) -> None:
        rows = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
        unit = rows[0] / np.linalg.norm(rows[0])
        texts = [Text(analyse(words), pack(range(6), rows), unit) for words in _WORDS]
        rule = Manners(floor=Cosine(0.97), thrift=PLENTY, **manners)  # type: ignore[arg-type]
        self.known = Known(16, rule.remembered)
        self.mind = Mind(Direct(texts), self.known)
        self.ledger = Ledger(Policy(), b"0")
        self.live = Live(_WORDS, self.ledger, rule)

    def asks(
        self, query: int, *rows: int, cosine: float = 0.99, same: bool | None = None
    ) -> Decided:
        """Decide, and learn what is told of all neighbours."""
        near = Near(np.array(rows, dtype=np.int64), np.full(len(rows), cosine, dtype=np.float32))
        view = self.mind.view(query, near)
        decided = self.live.decide(query, view)
        if decided.choice.serve < 0:
            self.mind.store(query)
        if view is not None and same is not None:
            told = np.full(len(view.kept), same, dtype=np.bool_)
            if self.live.note(view, told, decided):
                self.mind.drift()
            self.mind.learn(query, view, told, 1 / decided.chance)
        return decided


def test_cold_the_floor_and_the_guards_decide() -> None:
    """A near-copy is served, past one that a guard speaks against; nothing below the floor."""
    player = Player()
    assert player.asks(0, 2, 1).choice.serve == 1
    assert player.asks(0, 2).choice.serve == -1
    assert player.asks(0, 1, cosine=0.9).choice.serve == -1
    assert player.asks(0) == Decided()


def test_the_static_rule_ends_where_an_audit_shows_it_wrong() -> None:
    """From then on the budget decides, which is closed without evidence."""
    player = Player(cold_audit=1.0)
    assert player.asks(0, 1, same=False).choice == Choice(0, audited=True)
    assert player.asks(3, 1).choice.serve == -1


def test_plenty_of_labels_end_the_static_rule() -> None:
    """Even where each was right, an unopened ledger serves nothing more."""
    player = Player(enough=1)
    player.asks(0, 2, same=True)
    assert player.asks(1, 0).choice.serve == -1


def test_an_open_ledger_serves_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its place is that among all the near."""
    player = Player(enough=0)
    opened = Decision(serve=True, audit=False, chance=0.5)
    monkeypatch.setattr(player.ledger, "decide", lambda *_: opened)
    assert player.asks(0, 1).choice.serve == 0


def test_what_was_stored_before_a_drift_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only answers stored since count, and places stay those of all the near."""
    player = Player(enough=100)
    player.asks(0)
    monkeypatch.setattr(player.ledger, "learn", lambda place, label: True)
    player.asks(1, 0, cosine=0.5, same=False)
    assert player.asks(3, 0) == Decided()
    assert player.known.since == 2
    view = player.mind.view(3, Near(np.array([0, 1]), np.full(2, 0.99, dtype=np.float32)))
    assert view is not None
    assert view.kept.tolist() == [1]

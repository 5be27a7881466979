"""The live desk's rule as a player."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from askonce.lab.live import Live
from askonce.lab.measured import Direct
from askonce.lab.stream import Choice, Near
from askonce.trust.alignment import pack
from askonce.trust.ledger import Ledger, Policy
from askonce.trust.reading import analyse
from askonce.trust.sight import Manners
from askonce.trust.thrift import Thrift
from askonce.trust.verifier import Text
from askonce.units import Cosine

if TYPE_CHECKING:
    import pytest
    from numpy.typing import NDArray

_WORDS = (
    "How do I reset my password?",
    "how do I reset my password",
    "How do I reset my router?",
    "How do I reset my passwords?",
)


PLENTY = Thrift(of_hits=float("inf"), of_requests=float("inf"))


def _live(**manners: float) -> Live:
    rows = np.random.default_rng(0).standard_normal((6, 16)).astype(np.float32)
    unit = rows[0] / np.linalg.norm(rows[0])
    texts = [Text(analyse(words), pack(range(6), rows), unit) for words in _WORDS]
    rule = Manners(floor=Cosine(0.97), thrift=PLENTY, **manners)  # type: ignore[arg-type]
    return Live(_WORDS, Direct(texts), Ledger(Policy(), b"0"), rule)


def _near(*rows: int, cosine: float = 0.99) -> Near:
    return Near(np.array(rows, dtype=np.int64), np.full(len(rows), cosine, dtype=np.float32))


_NONE: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
_WRONG: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)


def test_cold_the_floor_and_the_guards_decide() -> None:
    """A near-copy is served, past one that a guard speaks against; nothing below the floor."""
    live = _live()
    assert live.choose(0, _near(2, 1)).serve == 1
    assert live.choose(0, _near(2)).serve == -1
    assert live.choose(0, _near(1, cosine=0.9)).serve == -1
    assert live.choose(0, _near()) == Choice()
    live.learn(0, _near(), _NONE, Choice())


def test_the_static_rule_ends_where_an_audit_shows_it_wrong() -> None:
    """From then on the budget decides, which is closed without evidence."""
    live = _live(cold_audit=1.0)
    choice = live.choose(0, _near(1))
    assert choice == Choice(0, audited=True)
    live.learn(0, _near(1), _WRONG, choice)
    assert live.choose(3, _near(1)).serve == -1


def test_plenty_of_labels_end_the_static_rule() -> None:
    """Even where each was right, an unopened ledger serves nothing more."""
    live = _live(enough=1)
    choice = live.choose(0, _near(2))
    live.learn(0, _near(2), _WRONG, choice)
    assert live.choose(1, _near(0)).serve == -1


def test_what_was_stored_before_a_drift_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only answers stored since count, and places stay those of all the near."""
    live = _live(enough=100)
    live.learn(0, _near(), _NONE, live.choose(0, _near()))
    monkeypatch.setattr(live._ledger, "learn", lambda place, label: True)
    live.learn(1, _near(0), _WRONG, live.choose(1, _near(0, cosine=0.5)))
    assert live.choose(3, _near(0)) == Choice()
    assert live._since == 2
    assert live._current(_near(0, 1)).tolist() == [1]

"""What outlives a namespace that had to be forgotten."""

from __future__ import annotations

from askonce.trust.account.thrift import Spending, Thrift
from askonce.trust.namespace import Namespace, Scars
from askonce.trust.prior import shipped
from askonce.trust.verifier import Learner


def _fresh() -> Namespace:
    return Namespace(Learner(shipped(), 8), Spending(Thrift()))


def test_mistakes_and_drifts_come_back_once() -> None:
    """Of the one that had them, and of no other."""
    scars, lost, back, other = Scars(), _fresh(), _fresh(), _fresh()
    lost.mistaken, lost.since = True, 7.0
    scars.keep(b"a", lost)
    scars.keep(b"b", _fresh())
    scars.restore(b"a", back)
    scars.restore(b"b", other)
    assert (back.mistaken, back.since) == (True, 7.0)
    assert (other.mistaken, other.since) == (False, 0.0)


def test_they_are_bounded() -> None:
    """The oldest leave first."""
    scars, lost, first, last = Scars(), _fresh(), _fresh(), _fresh()
    lost.mistaken = True
    for number in range(4097):
        scars.keep(b"%d" % number, lost)
    scars.restore(b"0", first)
    scars.restore(b"4096", last)
    assert (first.mistaken, last.mistaken) == (False, True)

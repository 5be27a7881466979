"""What one namespace knows of its judge, beside its ledger."""

from __future__ import annotations

import pytest

from askonce.trust.account.thrift import Spending, Thrift
from askonce.trust.namespace import Namespace
from askonce.trust.prior import shipped
from askonce.trust.verifier import Learner


def made(*, mistaken: bool) -> Namespace:
    """A namespace whose audits mostly brought no verdict."""
    known = Namespace(Learner(shipped(), 8, limit=8), Spending(Thrift()))
    known.mistaken = mistaken
    for _ in range(20):
        known.spending.audits.note(told=False)
    return known


@pytest.mark.parametrize(("mistaken", "would"), [(True, True), (True, False), (False, True)])
def test_what_would_be_served_speaks_for_hits_where_there_are_none(
    *, mistaken: bool, would: bool
) -> None:
    """Where near-copies are served still, or at what would not be, misses say nothing of hits."""
    known = made(mistaken=mistaken)
    assert known.blind
    for _ in range(60):
        known.missed(told=True, would=would)
    assert known.misses.share == 1.0
    assert known.blind is not (mistaken and would)

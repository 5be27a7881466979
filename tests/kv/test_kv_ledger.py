"""The ledger: what was won, and what was lost."""

from __future__ import annotations

import msgspec
import pytest

from askonce.kv.gate import Decision
from askonce.kv.ledger import Ledger
from askonce.units import Bytes, Seconds, Tokens

DECISION = Decision(
    blocks=2,
    why="pays",
    compute=Seconds(1.0),
    load=Seconds(0.6),
    size=Bytes(100),
    wait=Seconds(0.2),
    rest=Seconds(0.1),
)


def test_a_load_wins_what_it_was_faster() -> None:
    """Won is what computing would have taken, less the load and the rest of the prefill."""
    ledger = Ledger()
    assert ledger.loaded(DECISION, Seconds(0.5)) == pytest.approx(0.4)
    assert ledger.loaded(DECISION, Seconds(0.1)) == pytest.approx(0.7)
    assert ledger.net_seconds == pytest.approx(1.1)
    assert (ledger.loads, ledger.lost, ledger.bytes_read) == (2, 0, 200)


def test_a_load_that_was_late_is_counted_as_lost() -> None:
    """Negative benefit has counters of its own and lowers the net."""
    ledger = Ledger()
    assert ledger.loaded(DECISION, Seconds(2.0)) == pytest.approx(-1.1)
    ledger.wasted(Bytes(50), Seconds(0.3))
    assert (ledger.lost, ledger.bytes_wasted) == (2, 50)
    assert ledger.lost_seconds == pytest.approx(1.4)
    assert ledger.net_seconds == pytest.approx(-1.4)
    assert ledger.load_seconds == pytest.approx(2.3)


def test_an_audit_forgoes_what_loading_would_have_won() -> None:
    """Which is no loss: the prompt takes as long as without a tier."""
    ledger = Ledger()
    ledger.audit(DECISION)
    ledger.audit(msgspec.structs.replace(DECISION, blocks=0))
    assert ledger.audited == 2
    assert ledger.forgone_seconds == pytest.approx(0.4)
    assert ledger.net_seconds == 0.0


def test_tokens_are_counted_by_source_and_ledgers_add_up() -> None:
    """The fleet's ledger is the sum of the engines'."""
    one, other = Ledger(), Ledger()
    one.request(local=Tokens(1), store=Tokens(2), computed=Tokens(3))
    other.request(local=Tokens(10), store=Tokens(20), computed=Tokens(30))
    other.refuse()
    other.wrote(Bytes(7))
    both = one.plus(other)
    assert (both.local_tokens, both.store_tokens, both.computed_tokens) == (11, 22, 33)
    assert (both.refused, both.bytes_written) == (1, 7)

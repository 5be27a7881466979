"""Namespaces have names that tell nothing a caller has written, and rules of their own."""

from __future__ import annotations

import pytest

from askonce.trust.account.budget import Budget
from askonce.trust.names import SHARED, Namespaces, Rules, question_digest

NAMES = Namespaces(
    Rules(mode="shadow", budget=Budget(0.02)),
    {"support": Rules(budget=Budget(0.003)), "default": Rules(mode="off", budget=Budget(0.03))},
)
TENANT = b"t" * 32


def test_a_configured_name_stands_for_itself() -> None:
    """Operators find their own names again; callers' names are digests."""
    assert NAMES.label("support", SHARED) == "support"
    assert NAMES.label("", SHARED) == "default"
    assert NAMES.label("secret plans", SHARED).startswith("ns-")
    assert "secret" not in NAMES.label("secret plans", TENANT)


def test_tenants_have_labels_of_their_own() -> None:
    """One name in two tenants is two labels, and each belongs to its tenant alone."""
    one, other = NAMES.label("support", TENANT), NAMES.label("support", b"u" * 32)
    assert one != other
    assert NAMES.belongs(one, TENANT)
    assert not NAMES.belongs(other, TENANT)
    assert NAMES.belongs(other, SHARED)


def test_rules_by_name() -> None:
    """The nameless namespace is configured as `default`; unknown ones follow the rest."""
    assert NAMES.rules("support").mode == "on"
    assert NAMES.rules("").mode == "off"
    assert NAMES.rules("else").mode == "shadow"


def test_budgets_by_label() -> None:
    """A label finds its configured budget, with or without a tenant; another finds none."""
    assert NAMES[b"support"] == NAMES[NAMES.label("support", TENANT).encode()] == Budget(0.003)
    assert NAMES.get(NAMES.label("else", TENANT).encode()) is None
    assert NAMES.get(b"else") is None
    assert set(NAMES) == {b"support", b"default"}
    assert len(NAMES) == 2
    with pytest.raises(KeyError):
        NAMES[b"ns-1"]


def test_a_question_is_known_by_digest() -> None:
    """Equal texts in two partitions are two questions."""
    assert question_digest(b"p", "text") == question_digest(b"p", "text")
    assert question_digest(b"p", "text") != question_digest(b"q", "text")
    assert len(question_digest(b"p", "\ud800")) == 32

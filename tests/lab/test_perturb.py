"""Pairs made by rule."""

from __future__ import annotations

from random import Random

from askonce.lab.perturb import made

TEXTS = [
    "What is the fee for 3 transfers?", "Can I open the account before Monday?",
    "where is my last payment", "How do I cancel a direct debit?", "Do not charge me 20 pounds",
    "I am locked out", "who is it", "Is the increase in my limit permanent?", "ok",
]  # fmt: skip


def test_each_kind_is_made_up_to_its_count_and_changes_the_text() -> None:
    """Every pair differs, and says whether the answer stays."""
    pairs = made(TEXTS, Random(0), 3)
    kinds = {pair.category for pair in pairs}
    assert len(kinds) == 14
    assert all(pair.a != pair.b for pair in pairs)
    assert max(sum(pair.category == kind for pair in pairs) for kind in kinds) == 3
    assert {pair.same for pair in pairs} == {True, False}


def test_traps_change_one_thing() -> None:
    """A number, a negation or a role is turned, and nothing else."""
    pairs = {pair.category: pair for pair in made(TEXTS, Random(1), 9)}
    number = pairs["made_number"]
    assert (
        sum(a != b for a, b in zip(str(number.a).split(), str(number.b).split(), strict=True)) == 1
    )
    assert (" not" in str(pairs["made_negation"].a)) != (" not" in str(pairs["made_negation"].b))
    exchange = pairs["made_exchange"]
    assert sorted(str(exchange.a).strip("?").split()) == sorted(str(exchange.b).strip("?").split())


def test_the_same_seed_makes_the_same_pairs() -> None:
    """Training data can be made again."""
    assert made(TEXTS, Random(5), 4) == made(TEXTS, Random(5), 4)

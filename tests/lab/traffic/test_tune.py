"""Advice follows the evidence, says what it risks, and can be served."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.lab.traffic.logs import call, faq, lookalikes, readings, silent, traffic_of

from askonce.config import (
    Config,
    ExactConfig,
    NamespaceConfig,
    SemanticConfig,
    TenantConfig,
    TrustConfig,
)
from askonce.lab.traffic import advice, meaning, tune, tune_page
from askonce.lab.traffic.advice import Advice, Timing
from askonce.lab.traffic.repeats import AGES, Change, Demand, Repeats, Sharing
from askonce.lab.traffic.replay import Count, Played
from askonce.lab.traffic.report import LogOptions
from askonce.lab.traffic.toml import snippet
from askonce.settings import load_config

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from askonce.lab.traffic.tune import TuneReport

pytestmark = pytest.mark.anyio
DAY = 86400.0
MIB = 1024 * 1024


def repeats(kept: dict[float, float], changed: dict[float, tuple[int, int]]) -> Repeats:
    """Re-asks of which these lives serve these shares; answers (same, different) by age."""
    return Repeats(
        calls=1000,
        again=500,
        intervals=(60.0,) * 5,
        kept=tuple(kept.get(age, 1.0) for age in AGES),
        changes=tuple(Change(age, *changed.get(age, (0, 0)), 0) for age in AGES),
    )


LOW = dict.fromkeys((60.0, 300.0, 900.0, 3600.0), 0.3)


def test_a_life_is_raised_to_what_re_asks_need() -> None:
    """Four hours serve them all, one hour a third."""
    told = advice.exact_ttl(repeats(LOW, {}), Config(), 10 * DAY)
    assert (told.then, told.changes) == (4 * 3600.0, True)
    assert "serves 100 %" in told.why
    assert "does not show whether they change" in told.risk
    assert told.optional
    shown = advice.exact_ttl(repeats(LOW, {4 * 3600.0: (50, 0)}), Config(), 10 * DAY)
    assert (shown.then, shown.optional) == (4 * 3600.0, False)


def test_a_life_is_not_longer_than_answers_hold() -> None:
    """The engine's answers change after a quarter of an hour: the life is lowered to that."""
    found = repeats(LOW, {60.0: (200, 1), 900.0: (50, 0), 3600.0: (40, 40)})
    told = advice.exact_ttl(found, Config(), 10 * DAY)
    assert told.then == 900.0
    assert "beyond 15 min the engine answers otherwise" in told.why
    assert "1 of 251 judged had changed" in told.risk


def test_an_engine_that_never_says_the_same_twice_shortens_no_life() -> None:
    """What differs at once is noise, not age."""
    found = repeats({}, {60.0: (50, 50), 3600.0: (50, 50)})
    assert advice.exact_ttl(found, Config(), 10 * DAY).then == 3600.0


def test_an_engine_that_never_says_the_same_twice_lengthens_no_life_by_itself() -> None:
    """No answer as old as that has been seen to hold, so the operator is to decide."""
    changed = repeats(LOW, {60.0: (0, 100), 3600.0: (0, 100), 4 * 3600.0: (1, 99)})
    told = advice.exact_ttl(changed, Config(), 10 * DAY)
    assert (told.then, told.optional) == (4 * 3600.0, True)


def test_few_re_asks_change_nothing() -> None:
    """Nor does a log without times."""
    few = msgspec.structs.replace(repeats(LOW, {}), again=3)
    assert not advice.exact_ttl(few, Config(), 10 * DAY).changes
    assert not advice.exact_ttl(repeats(LOW, {}), Config(), 0.0).changes
    assert not advice.semantic_ttl([5.0], Config(), DAY).changes


def test_a_short_log_speaks_for_no_longer_life_than_its_own() -> None:
    """A day cannot show what a week would bring."""
    kept = dict.fromkeys(AGES, 0.1) | {7 * DAY: 1.0}
    assert advice.exact_ttl(repeats(kept, {}), Config(), DAY).then == 3600.0


def test_answers_by_meaning_live_as_long_as_they_are_used() -> None:
    """Two days old ones want three."""
    told = advice.semantic_ttl([2 * DAY] * 50, Config(), 9 * DAY)
    assert told.then == 3 * DAY


def test_stores_grow_to_what_the_traffic_fills() -> None:
    """In powers of two, with headroom; they are never shrunk."""
    found = Demand(hot_hits=((0.95, 100 * MIB),), live=2048 * MIB, entry=4096, entries=400_000)
    told = {one.key: one.then for one in advice.sizes(found, Config())}
    assert told == {
        "exact.memory_bytes": 256 * MIB,
        "exact.disk_bytes": 4096 * MIB,
        "semantic.max_entries": 600_000,
    }
    small = Demand(hot_hits=((0.95, 0),), live=0, entry=0, entries=0)
    assert not any(one.changes for one in advice.sizes(small, Config()))


@pytest.mark.parametrize(
    ("together", "same", "different", "then"),
    [
        (300, 500, 0, "shared"),
        (300, 50, 0, "credential"),
        (300, 300, 200, "credential"),
        (105, 500, 0, "credential"),
    ],
)
def test_sharing_is_only_offered_where_answers_agree(
    together: int, same: int, different: int, then: str
) -> None:
    """And then as a comment, since a log cannot show who may see what."""
    found = Sharing(tenants=3, own=100, together=together, across=Change(1.0, same, different, 0))
    told = advice.tenants(found, Config(), 1000)
    assert told.then == then
    if then == "shared":
        assert '# scope = "shared"' in snippet([told])
        assert tomllib.loads(snippet([told])) == {"tenants": {}}


def test_workers_and_queue_follow_the_embedder() -> None:
    """Busier than three fifths of a core asks for more; a queue past the deadline is useless."""
    told = {one.key: one.then for one in advice.embedder(Timing(200.0, 0.010), Config())}
    assert told == {"server.workers": 4, "semantic.queue": 5}
    assert advice.embedder(Timing(1.0, 0.0), Config()) == []


def count(calls: int = 1000, semantic: int = 300, same: int = 0, different: int = 0) -> Count:
    """What one rule came to; all its hits are in other words."""
    return Count(
        calls=calls,
        exact=100,
        semantic=semantic,
        same=same,
        different=different,
        reworded_same=same,
        reworded_different=different,
    )


def play(rule: str, setting: float, total: Count, namespaces: dict[int, Count]) -> Played:
    """One rule as if replayed."""
    return Played(
        rule=rule,
        setting=setting,
        total=total,
        namespaces=namespaces,
        places={},
        ages=[],
        steps=[],
    )


def advised(
    guards: dict[float, Count],
    budgets: dict[float, Count],
    namespaces: dict[int, Count] | None = None,
    config: Config | None = None,
) -> dict[str, Advice]:
    """Advice about meaning by key."""
    played = [play("guards", floor, one, {}) for floor, one in guards.items()]
    played += [play("askonce", share, one, namespaces or {}) for share, one in budgets.items()]
    found = meaning.evidence(played, ["default", "shop", "bad\nname"])
    return {one.key: one for one in meaning.by_meaning(found, config or Config())}


def test_evidence_is_switched_on_where_it_answers_more() -> None:
    """With the mode that it allows."""
    told = advised({0.97: count(semantic=50, same=50)}, {0.01: count(same=300)})
    assert told["trust.enabled"].then is True
    assert told["trust.mode"].then == "on"
    assert "proven" in told["trust.mode"].why


def test_it_stays_off_where_floor_and_guards_do_as_well() -> None:
    """Nothing is said of modes then."""
    off = Config(trust=TrustConfig(enabled=False))
    told = advised({0.97: count(same=300)}, {0.01: count(same=300)}, config=off)
    assert told["trust.enabled"].then is False
    assert "trust.mode" not in told


@pytest.mark.parametrize(
    ("one", "mode"),
    [
        (count(same=20), "shadow"),
        (count(same=90, different=10), "shadow"),
        (count(semantic=2), "off"),
        (count(calls=300, semantic=1), "shadow"),
        (count(same=100), "on"),
    ],
)
def test_each_namespace_gets_the_mode_that_its_evidence_allows(one: Count, mode: str) -> None:
    """Too few verdicts or too many wrong ones: watch first; hardly any hits: leave it off."""
    known = {1: one, 2: count(same=20), 0: count(calls=10)}
    told = advised({0.97: count(same=300)}, {0.01: count(same=300)}, known)
    if mode == "on":
        assert "trust.namespaces.shop.mode" not in told
    else:
        assert told["trust.namespaces.shop.mode"].then == mode
        assert told["trust.enabled"].then is True
    assert not any("bad" in key for key in told)


def test_a_floor_is_lowered_as_far_as_it_is_proven() -> None:
    """Not past one that is over the budget, and never below 0.9."""
    fine, bad = count(same=900), count(same=80, different=20)
    lowered = advised({0.85: fine, 0.9: fine, 0.95: fine, 0.97: fine}, {0.01: fine})
    assert lowered["semantic.floor"].then == 0.9
    stopped = advised({0.9: fine, 0.92: bad, 0.95: fine, 0.97: fine}, {0.01: fine})
    assert stopped["semantic.floor"].then == 0.95
    raised = advised({0.95: bad, 0.97: bad, 0.99: fine}, {0.01: fine})
    assert raised["semantic.floor"].then == 0.99
    assert raised["trust.enabled"].then is True


def test_where_every_floor_is_over_the_budget_only_equal_words_are_left() -> None:
    """What is told is what the highest floor that was replayed came to."""
    bad = count(same=80, different=20)
    raised = advised({0.95: bad, 0.97: bad, 0.99: bad}, {0.01: count(same=900)})["semantic.floor"]
    assert raised.then == 1.0
    assert raised.why.startswith("from 0.99 on 20 of 100 judged hits in other words were wrong")


def test_a_stricter_preset_is_advised_where_it_costs_nothing() -> None:
    """A looser one never is, nor one in place of a number that the operator set."""
    budgets = {0.003: count(same=295), 0.01: count(same=300), 0.03: count(semantic=600, same=600)}
    plain = {0.97: count(semantic=50, same=50)}
    assert advised(plain, budgets)["trust.preset"].then == "support"
    own = Config(trust=TrustConfig(budget=0.01))
    assert advised(plain, budgets, config=own)["trust.preset"].then == "docs"
    budgets[0.003] = count(semantic=200, same=200)
    assert advised(plain, budgets)["trust.preset"].then == "docs"


def test_a_namespace_may_do_with_a_stricter_preset() -> None:
    """Where it costs that one nothing, though others would lose; not where it has its own."""
    plain = play("guards", 0.97, count(semantic=50, same=50), {})
    shares = {0.003: 200, 0.01: 400}
    played = [plain] + [
        play("askonce", share, count(semantic=hits, same=hits), {0: count(same=300)})
        for share, hits in shares.items()
    ]
    found = meaning.evidence(played, ["shop"])
    told = {one.key: one.then for one in meaning.by_meaning(found, Config())}
    assert told["trust.preset"] == "docs"
    assert told["trust.namespaces.shop.preset"] == "support"
    own = {"shop": NamespaceConfig(mode="off", budget=0.02)}
    config = Config(trust=TrustConfig(namespaces=own))
    told = {one.key: one.then for one in meaning.by_meaning(found, config)}
    assert "trust.namespaces.shop.preset" not in told
    assert told["trust.namespaces.shop.mode"] == "on"


def test_a_tier_that_finds_nothing_is_not_worth_its_embedder() -> None:
    """Few calls say nothing at all."""
    told = advised({0.97: count(semantic=1)}, {0.01: count(semantic=2)})
    assert [one.then for one in told.values()] == [False]
    few = advised({0.97: count(calls=300, semantic=0)}, {0.01: count(calls=300, semantic=0)})
    assert not any(one.changes for one in few.values())
    assert "too few" in few["semantic.floor"].why


def test_any_name_and_any_evidence_make_valid_toml() -> None:
    """Names are quoted, and a comment stays on its line."""
    name = 'a.b "c" é😀'
    told = Advice(key=f"trust.namespaces.{name}.mode", now="on", then="off", why="x\n[evil]")
    made = snippet([told, Advice(key="exact.ttl", now=1.0, then=2.0, why="y")])
    assert tomllib.loads(made) == {
        "trust": {"namespaces": {name: {"mode": "off"}}},
        "exact": {"ttl": 2.0},
    }
    assert tomllib.loads(snippet([])) == {}


async def tuned(path: Path, lines: Iterable[Any], config: Config | None = None) -> TuneReport:
    """The advice on a log."""
    config = config or Config()
    traffic = traffic_of(path, lines, config)
    try:
        async with readings() as opened:
            given = opened if config.semantic.enabled else None
            return await tune.tuned(traffic, config, given, LogOptions(), silent)
    finally:
        traffic.close()


@pytest.mark.slow
async def test_the_snippet_is_a_configuration(tmp_path: Path) -> None:
    """It loads as it is, and says what the table says; the page holds it as well."""
    lines = [*faq(250, namespace="faq"), *lookalikes(150, namespace="seats")]
    lines.sort(key=lambda line: line["time"])
    config = Config(exact=ExactConfig(ttl=60.0), tenants=TenantConfig(secret="s" * 40))
    found = await tuned(tmp_path, lines, config)
    file = tmp_path / "askonce.toml"
    file.write_text(found.toml)
    loaded = load_config(file, {})
    assert loaded.exact.ttl > 60.0
    assert f"ttl = {json.dumps(loaded.exact.ttl)}" in found.toml
    assert found.then.total.exact > found.now.total.exact
    text = tune.render(found)
    assert "The log covers 2." in text
    assert found.toml in text
    out = tmp_path / "out"
    tune_page.write(found, out)
    assert (out / "askonce.toml").read_text() == found.toml
    assert "What to change" in (out / "tune.html").read_text()


async def test_advice_lies_over_what_is_configured() -> None:
    """Keys that it does not name stay as they were."""
    config = Config(exact=ExactConfig(ttl=60.0, deadline=1.0))
    changed = tune.applied(config, "[exact]\nttl = 5.0\n[trust.namespaces.a]\nmode = 'off'\n")
    assert (changed.exact.ttl, changed.exact.deadline) == (5.0, 1.0)
    assert changed.trust.namespaces["a"].mode == "off"


async def test_a_log_that_says_nothing_changes_nothing(tmp_path: Path) -> None:
    """The snippet says so, and so does the page."""
    config = Config(semantic=SemanticConfig(enabled=False))
    found = await tuned(tmp_path, [call("a"), call("b", at=2 * DAY)], config)
    assert not any(one.changes for one in found.advice)
    assert "Nothing to change" in tune.render(found)
    assert "Nothing: the log speaks" in tune_page.page(found, [])


@pytest.mark.parametrize("value", [True, 3, 2.5, "text"])
def test_values_are_spelt_as_toml(value: advice.Value) -> None:
    """Of every kind that a key takes."""
    made = snippet([Advice(key="a.b", now=0, then=value, why="w")])
    assert tomllib.loads(made) == {"a": {"b": value}}

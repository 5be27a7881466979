"""A replay answers as the gateway would: lives, partitions, evidence from recorded answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.lab.traffic.logs import call, faq, lookalikes, readings, silent, traffic_of

from askonce.config import Config, NamespaceConfig, SemanticConfig, TrustConfig
from askonce.lab.players import PerEntry
from askonce.lab.traffic import pages, report, tables
from askonce.lab.traffic.replay import Count, Lives, Played, Replay, Stage
from askonce.lab.traffic.report import NOW, LogOptions, LogReport, Prices
from askonce.lab.traffic.rules import Bare, Guarded, Never, OnePerEntry, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

pytestmark = pytest.mark.anyio
HOUR = Lives(3600.0, 86400.0)


async def played(
    path: Path, lines: Iterable[Any], rule: Rule, lives: Lives = HOUR, **options: Any
) -> Played:
    """One rule on a log."""
    traffic = traffic_of(path, lines)
    async with readings() as (_, kept):
        stage = await report.staged(traffic, kept, LogOptions(**options), silent)
        found = Replay(stage, rule, lives, 8).run("rule", 0.0)
    traffic.close()
    return found


async def test_the_exact_tier_holds_for_its_life(tmp_path: Path) -> None:
    """An hour after the answer it has ended; a hit does not extend it."""
    times = [0.0, 1800.0, 3599.0, 3601.0, 7300.0]
    found = await played(tmp_path, [call("a", at=at) for at in times], Never())
    assert (found.total.calls, found.total.exact) == (5, 2)


async def test_equal_requests_in_flight_share_one_answer(tmp_path: Path) -> None:
    """The second comes before the first is answered."""
    lines = [call("a", seconds=10.0), call("a", at=5.0)]
    assert (await played(tmp_path, lines, Never())).total.exact == 1


async def test_callers_controls_hold(tmp_path: Path) -> None:
    """A life of their own, an age they take at most, no lookup, no store."""
    lines = [
        call("a", headers={"x-askonce-ttl": "10"}),
        call("a", at=20.0),
        call("a", at=50.0, headers={"cache-control": "max-age=5"}),
        call("a", at=51.0, headers={"cache-control": "no-cache"}),
        call("b", at=60.0, headers={"cache-control": "no-store"}),
        call("b", at=61.0),
        call("b", at=62.0),
    ]
    assert (await played(tmp_path, lines, Never())).total.exact == 1


async def test_hits_by_meaning_stay_in_their_partition(tmp_path: Path) -> None:
    """Another system prompt, tenant or namespace is another world."""
    one, two = call("How do I reset my router?"), call("How do I reset my router", at=9.0)
    assert (await played(tmp_path, [one, two], Bare(0.5))).total.semantic == 1
    for other in ({**two, "namespace": "n"}, {**two, "tenant": "t"}):
        assert (await played(tmp_path, [one, other], Bare(0.5))).total.semantic == 0


async def test_recorded_answers_say_what_was_wrong(tmp_path: Path) -> None:
    """Same, different and unsure are told apart; a cached answer in the log says nothing."""
    text = "How do I reset my router"
    lines = [
        call(f"{text}?", "It takes 5 minutes."),
        call(f"{text}!", "It takes 5 minutes.", 1.0),
        call(f"{text}..", "It takes 9 minutes.", 2.0),
        call(f"{text}!?", "It takes 5 minutes.", 3.0, served="exact"),
        call(f"{text}??", None, 4.0),
    ]
    total = (await played(tmp_path, lines, Bare(0.5))).total
    assert (total.semantic, total.same, total.different, total.unjudged) == (4, 1, 1, 2)
    assert total.reworded_judged == 2
    assert total.wrong_share == 0.5
    assert total.bound > 0.5


async def test_the_same_words_after_their_exact_life_are_told_apart(tmp_path: Path) -> None:
    """They are answers by meaning, but not in other words."""
    total = (await played(tmp_path, [call("a"), call("a", at=4000.0)], Guarded(0.97))).total
    assert (total.exact, total.semantic, total.verbatim, total.reworded) == (0, 1, 1, 0)


async def test_guards_refuse_what_a_threshold_serves(tmp_path: Path) -> None:
    """Another number is another question."""
    lines = [call("Convert 100 euros to dollars"), call("Convert 900 euros to dollars", "x", 1.0)]
    assert (await played(tmp_path, lines, Bare(0.6))).total.semantic == 1
    assert (await played(tmp_path, lines, Guarded(0.6))).total.semantic == 0


async def test_the_replay_ends_before_one_question_too_many(tmp_path: Path) -> None:
    """The bound is on different questions; a long text is never compared."""
    lines = [call(text, at=at) for at, text in enumerate(["a", "b", "a", "c", "a", "x" * 300])]
    assert (await played(tmp_path, lines, Never(), questions=2)).total.calls == 3
    assert (await played(tmp_path, lines, Bare(-1.0), questions=0)).total.calls == 6


async def test_an_entry_learns_from_verdicts_on_the_nearest(tmp_path: Path) -> None:
    """After six labels it may answer."""
    lines = [call("How do I reset my router?", at=4000.0 * at) for at in range(60)]
    total = (await played(tmp_path, lines, OnePerEntry(PerEntry(0.05, 0)))).total
    assert 0 < total.semantic <= 60 - 7
    assert (total.exact, total.different) == (0, 0)


async def reported(path: Path, lines: Iterable[Any], config: Config, **more: Any) -> LogReport:
    """The whole report on a log."""
    options = LogOptions(budgets=(0.01,), floors=(0.9,), **more)
    traffic = traffic_of(path, lines, config)
    async with readings() as (embedder, kept):
        stage = await report.staged(traffic, kept, options, silent)
        todo = report.jobs(config, options, embedder.dim)
        results = report.play_all(stage, todo, config, silent)
        found = report.reported(stage, results, options, embedder.id, config)
    traffic.close()
    return found


def rule(found: LogReport, name: str) -> Played:
    """One rule of a report."""
    return next(one for one in found.played if one.rule == name)


@pytest.mark.slow
async def test_evidence_opens_where_answers_agree_and_not_where_they_differ(
    tmp_path: Path,
) -> None:
    """The desk works as live: one namespace is served by meaning, the other hardly at all."""
    lines = [*faq(400, namespace="faq"), *lookalikes(250, namespace="seats")]
    lines.sort(key=lambda line: line["time"])
    found = await reported(tmp_path, lines, Config(), prices=Prices(1.0, 2.0))
    rows = {row.namespace: row for row in found.namespaces if row.rule == "askonce"}
    assert rows["faq"].semantic > 50
    assert rows["faq"].wrong == 0
    assert rows["seats"].wrong <= 5
    assert rule(found, "askonce").total.audits > 0
    text = tables.render(found)
    assert "By namespace" in text
    assert "$" in text
    assert found.partitions[0].calls == 400


@pytest.mark.slow
async def test_modes_hold_in_the_replay_of_what_is_configured(tmp_path: Path) -> None:
    """Off looks for nothing, shadow serves nothing, on serves."""
    lines = [line for name in ("a", "b", "c") for line in faq(200, every=300.0, namespace=name)]
    lines.sort(key=lambda line: line["time"])
    modes = {"a": NamespaceConfig(mode="off"), "b": NamespaceConfig(mode="shadow")}
    config = Config(trust=TrustConfig(enabled=True, namespaces=modes, audits_per_hour=0.0))
    now = rule(await reported(tmp_path, lines, config), NOW)
    served = [count.semantic for _, count in sorted(now.namespaces.items())]
    assert served[:2] == [0, 0]
    assert served[2] > 0
    assert now.total.audits == 0


async def test_without_an_embedder_the_exact_tier_is_replayed(tmp_path: Path) -> None:
    """Nothing is near anything then, and the report says so."""
    config = Config(semantic=SemanticConfig(enabled=False))
    traffic = traffic_of(tmp_path, [call("a"), call("a", at=1.0)], config)
    options = LogOptions()
    stage = await report.staged(traffic, None, options, silent)
    todo = report.jobs(config, options, 0)
    results = report.play_all(stage, todo, config, silent)
    found = report.reported(stage, results, options, "", config)
    assert [one.rule for one in results] == [NOW, "exact"]
    assert results[0].total.exact == 1
    assert "there is no embedder" in tables.render(found)
    with pytest.raises(KeyError):
        Stage(traffic, traffic.calls, None).read(0)
    traffic.close()


async def test_the_page_holds_everything(tmp_path: Path) -> None:
    """Plots beside it, and a prompt's markup is no markup of the page."""
    pytest.importorskip("matplotlib")
    lines = [*faq(40), call("<script>alert(1)</script> one"), call("<script>alert(1)</script> two")]
    found = await reported(tmp_path, lines, Config())
    out = tmp_path / "out"
    assert pages.write(found, out) == f"written to {out}"
    assert sorted(path.name for path in out.iterdir()) == ["log.html", "rules.png", "time.png"]
    text = (out / "log.html").read_text()
    assert "data:image/png" in text
    assert "<script>" not in text
    again = msgspec.json.decode(msgspec.json.encode(found), type=LogReport)
    assert again.calls == 42


def test_whether_a_budget_was_kept_is_told_in_one_word() -> None:
    """Over beyond chance, open within it, kept, proven, or unknown without verdicts."""

    def told(**counts: int) -> str:
        total = Count(calls=1000, semantic=500, **counts)
        return tables.held(
            Played(
                rule="askonce",
                setting=0.01,
                total=total,
                namespaces={},
                places={},
                ages=[],
                steps=[],
            )
        )

    assert told() == "unknown"
    assert told(same=10, different=5) == "over"
    assert told(same=60, different=1) == "open"
    assert told(same=50) == "kept"
    assert told(same=500) == "proven"
    assert told(same=500, unsure=501) == "kept"

"""Re-asks: intervals, lives that would serve them, what a cache would hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.lab.traffic.logs import call, traffic_of

from askonce.lab.traffic.repeats import AGES, demand, exact_hits, repeats, sharing

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86400.0


def test_intervals_and_lives(tmp_path: Path) -> None:
    """Each life serves its share of what comes again."""
    lines = [call("a", at=at) for at in (0.0, 50.0, 400.0, 4000.0)]
    traffic = traffic_of(tmp_path, lines)
    found = repeats(traffic)
    assert (found.calls, found.again) == (4, 3)
    assert found.intervals[0] == 350.0
    kept = dict(zip(AGES, found.kept, strict=True))
    assert kept[60.0] == 1 / 3
    assert kept[3600.0] == 2 / 3
    assert kept[DAY] == 1.0
    traffic.close()


def test_answers_that_changed_are_found_by_their_age(tmp_path: Path) -> None:
    """Two fresh answers to the same request are compared; one from a cache is not."""
    lines = [
        call("a", "It is 5.", 0.0),
        call("a", "It is 5.", 50.0),
        call("a", "It is 6.", 50.0 + DAY),
        call("a", "It is 6.", 60.0 + DAY, served="exact"),
    ]
    traffic = traffic_of(tmp_path, lines)
    changes = {one.age: (one.same, one.different) for one in repeats(traffic).changes}
    assert changes[60.0] == (1, 0)
    assert changes[DAY] == (0, 1)
    traffic.close()


def test_an_empty_log_repeats_nothing(tmp_path: Path) -> None:
    """All figures are 0 then."""
    traffic = traffic_of(tmp_path, [])
    found = repeats(traffic)
    assert (found.again, set(found.kept), set(found.intervals)) == (0, {0.0}, {0.0})
    assert demand(traffic, 1.0, 1.0).live == 0
    traffic.close()


def test_memory_for_hits_is_what_an_lru_would_need(tmp_path: Path) -> None:
    """To hit the first again it must hold the two entries since as well."""
    lines = [call(text, at=at) for at, text in enumerate(["a", "b", "c", "a", "a"])]
    traffic = traffic_of(tmp_path, lines)
    entry = traffic.calls[0].size + 256 + 512
    found = demand(traffic, 3600.0, DAY)
    assert dict(found.hot_hits)[0.99] == 3 * entry
    assert (found.entries, found.live) == (3, 3 * traffic.calls[0].size)
    traffic.close()


def test_what_sharing_would_bring(tmp_path: Path) -> None:
    """Hits across tenants, and whether their answers agree."""
    lines = [
        call("a", "It is 5.", 0.0, tenant="x"),
        call("a", "It is 5.", 1.0, tenant="y"),
        call("a", "It is 6.", 2.0, tenant="x"),
    ]
    traffic = traffic_of(tmp_path, lines)
    found = sharing(traffic, 3600.0)
    assert (found.tenants, found.own, found.together) == (2, 1, 2)
    assert (found.across.same, found.across.different) == (1, 1)
    traffic.close()


def test_a_life_of_a_callers_own_holds(tmp_path: Path) -> None:
    """Whatever life is tried."""
    lines = [call("a", headers={"x-askonce-ttl": "5"}), call("a", at=9.0)]
    traffic = traffic_of(tmp_path, lines)
    assert exact_hits(traffic.calls, DAY, lambda one: one.key) == 0
    traffic.close()

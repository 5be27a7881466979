"""The states of one request, as a table and as a machine that is driven at random."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from askonce.canonical.answer import Answer
from askonce.canonical.entry import Entry
from askonce.flow import (
    AskEngine,
    GiveUp,
    Hit,
    Lives,
    LookExact,
    LookSemantic,
    Plan,
    State,
    begin,
    fresh_hit,
    plan,
)
from askonce.policy.controls import Controls
from askonce.units import Cosine, Seconds, Tokens, UnixTime

NOW = UnixTime(1_000_000.0)
LIVES = Lives(exact=Seconds(60), semantic=Seconds(600))


def entry_of(*, age: float = 0, exact_left: float = 60, semantic_left: float = 600) -> Entry:
    """An entry as old as that, with so much of its lives left."""
    return Entry(
        key=bytes(32),
        answer=Answer(b'"x":1}', "chatcmpl-", Tokens(1), Tokens(1)),
        created_at=UnixTime(NOW - age),
        exact_until=UnixTime(NOW + exact_left),
        semantic_until=UnixTime(NOW + semantic_left),
        tags=(),
        model="m",
        upstream="u",
        question="q",
        engine_time=Seconds(1),
    )


def planned(
    controls: Controls | None = None, lives: Lives = LIVES, *, question: bool = True
) -> Plan:
    """The plan of a request with these controls."""
    return plan(controls or Controls(), lives, has_question=question)


def test_a_plain_request_may_use_everything() -> None:
    """Without controls both tiers, storing and sharing are on, with the default lives."""
    assert planned() == Plan(
        exact=True, semantic=True, exact_ttl=Seconds(60), semantic_ttl=Seconds(600)
    )


@pytest.mark.parametrize(
    "controls",
    [Controls(no_cache=True), Controls(max_age=Seconds(0)), Controls(max_age=Seconds(-0.0))],
)
def test_a_fresh_answer_is_its_own(controls: Controls) -> None:
    """No-cache looks nowhere and shares with nobody, but renews both tiers."""
    fresh = planned(controls)
    assert (fresh.exact, fresh.semantic, fresh.share, fresh.fresh) == (False, False, False, True)
    assert fresh.store
    assert (fresh.exact_ttl, fresh.semantic_ttl) == (Seconds(60), Seconds(600))


def test_no_store_neither_stores_nor_shares() -> None:
    """No-store may be answered from the cache, and leaves nothing there."""
    private = planned(Controls(no_store=True))
    assert (private.store, private.share, private.exact) == (False, False, True)


@pytest.mark.parametrize(
    ("ttl", "lives", "expected"),
    [
        (5.0, LIVES, (5, 5)),
        (None, LIVES, (60, 600)),
        (5.0, Lives(Seconds(0), Seconds(600)), (0, 5)),
        (5.0, Lives(Seconds(60), Seconds(0)), (5, 0)),
    ],
)
def test_a_wish_for_a_life_moves_both_tiers(
    ttl: float | None, lives: Lives, expected: tuple[float, float]
) -> None:
    """A caller's TTL replaces both defaults, but turns on no tier that is off."""
    wished = planned(Controls(ttl=None if ttl is None else Seconds(ttl)), lives)
    assert (wished.exact_ttl, wished.semantic_ttl) == expected


def test_a_life_of_nothing_is_not_stored() -> None:
    """TTL 0 stores nothing, since nothing could ever be served."""
    assert not planned(Controls(ttl=Seconds(0))).store


def test_without_a_question_there_are_no_semantics() -> None:
    """A request that has no question, or forbids semantics, stays exact."""
    for flat in (planned(question=False), planned(Controls(semantic=False))):
        assert (flat.semantic, flat.semantic_ttl, flat.store) == (False, Seconds(0), True)


def test_with_both_tiers_off_nothing_is_stored() -> None:
    """AskOnce with its tiers off is a proxy that still shares calls in flight."""
    off = planned(lives=Lives(Seconds(0), Seconds(0)))
    assert (off.exact, off.semantic, off.store, off.share) == (False, False, False, True)
    assert begin(off) == AskEngine("bypass")


def test_the_first_state() -> None:
    """A request begins in the first tier that it may use."""
    assert begin(planned()) == LookExact(planned())
    semantic = planned(lives=Lives(Seconds(0), Seconds(600)))
    assert begin(semantic) == LookSemantic(semantic)
    assert begin(planned(Controls(no_cache=True))) == AskEngine("request")
    assert begin(planned(Controls(no_cache=True, only_if_cached=True))) == GiveUp()


def test_an_exact_hit() -> None:
    """An entry within its life is served with its age and what is left of its life."""
    entry = entry_of(age=20, exact_left=40)
    assert LookExact(planned()).found(entry, NOW) == Hit(entry, "exact", Seconds(20), Seconds(40))


def test_an_exact_life_over_with_semantic_life_left() -> None:
    """What is too old for the exact tier may still be found by meaning, and is called stale."""
    entry = entry_of(age=70, exact_left=0, semantic_left=530)
    state = LookExact(planned()).found(entry, NOW)
    assert state == LookSemantic(planned(), "stale")
    assert isinstance(state, LookSemantic)
    hit = state.found(entry, Cosine(1.0), NOW)
    assert hit == Hit(entry, "semantic", Seconds(70), Seconds(530), Cosine(1.0))


def test_a_stale_entry_without_semantics_goes_to_the_engine() -> None:
    """With no tier left the engine is asked because the entry was stale."""
    flat = planned(question=False)
    assert LookExact(flat).found(entry_of(exact_left=-1), NOW) == AskEngine("stale")


def test_an_answer_too_old_for_the_caller() -> None:
    """An entry of exactly the greatest age is served, an older one never, in either tier."""
    young = planned(Controls(max_age=Seconds(10)))
    assert isinstance(LookExact(young).found(entry_of(age=10), NOW), Hit)
    assert LookExact(young).found(entry_of(age=10.1), NOW) == LookSemantic(young, "stale")
    old = LookSemantic(young).found(entry_of(age=10.1), Cosine(1.0), NOW)
    assert old == AskEngine("stale")


def test_a_clock_that_went_back_makes_no_negative_age() -> None:
    """An entry from the future is as old as none."""
    hit = fresh_hit(entry_of(age=-5), "exact", planned(), NOW)
    assert hit is not None
    assert hit.age == Seconds(0)


@pytest.mark.parametrize("tier", ["exact", "semantic"])
def test_an_entry_of_a_time_to_come_is_none(tier: Literal["exact", "semantic"]) -> None:
    """What was stored while the clock was wrong would else outlive its life by as much."""
    assert fresh_hit(entry_of(age=-61), tier, planned(), NOW) is None


def test_details_stay_in_order() -> None:
    """What the steps said is told in the order in which they ran; a plain miss says nothing."""
    state = LookExact(planned()).missed("store_deadline")
    assert isinstance(state, LookSemantic)
    assert state.missed("veto_number") == AskEngine("miss", ("store_deadline", "veto_number"))
    assert state.missed() == AskEngine("miss", ("store_deadline",))
    assert state.found(entry_of(semantic_left=0), Cosine(1.0), NOW) == AskEngine(
        "stale", ("store_deadline",)
    )


SECONDS = st.floats(min_value=0, max_value=1000)
CONTROLS = st.builds(
    Controls,
    no_cache=st.booleans(),
    no_store=st.booleans(),
    only_if_cached=st.booleans(),
    max_age=st.none() | SECONDS,
    ttl=st.none() | SECONDS,
    semantic=st.booleans(),
)
LIFE = st.sampled_from([0.0, 60.0, 600.0])
DETAIL = st.sampled_from(["", "store_deadline", "semantic_busy", "veto_negation"])
ENTRIES = st.builds(
    entry_of,
    age=st.floats(min_value=-10, max_value=1000),
    exact_left=st.floats(min_value=-100, max_value=100),
    semantic_left=st.floats(min_value=-100, max_value=100),
)


class AnyRequest(RuleBasedStateMachine):
    """Drives one request through whatever the tiers may say."""

    state: State
    plan: Plan

    def __init__(self) -> None:
        super().__init__()
        self.trail: list[State] = []
        self.said: list[str] = []

    @initialize(controls=CONTROLS, exact=LIFE, semantic=LIFE, question=st.booleans())
    def start(self, *, controls: Controls, exact: float, semantic: float, question: bool) -> None:
        self.plan = plan(controls, Lives(Seconds(exact), Seconds(semantic)), has_question=question)
        self._move(begin(self.plan))

    @precondition(lambda self: isinstance(self.state, LookExact))
    @rule(entry=ENTRIES)
    def exact_found(self, entry: Entry) -> None:
        assert isinstance(self.state, LookExact)
        self._move(self.state.found(entry, NOW))

    @precondition(lambda self: isinstance(self.state, LookSemantic))
    @rule(entry=ENTRIES, score=st.floats(min_value=0, max_value=1))
    def semantic_found(self, entry: Entry, score: float) -> None:
        assert isinstance(self.state, LookSemantic)
        self._move(self.state.found(entry, Cosine(score), NOW))

    @precondition(lambda self: isinstance(self.state, LookExact | LookSemantic))
    @rule(detail=DETAIL)
    def missed(self, detail: str) -> None:
        assert isinstance(self.state, LookExact | LookSemantic)
        self.said += [detail] if detail else []
        self._move(self.state.missed(detail))

    @precondition(lambda self: isinstance(self.state, Hit | AskEngine | GiveUp))
    @rule()
    def rest(self) -> None:
        """An end is an end."""
        assert not hasattr(self.state, "found")
        assert not hasattr(self.state, "missed")

    def _move(self, state: State) -> None:
        self.state = state
        self.trail.append(state)

    @invariant()
    def each_tier_is_looked_at_once_and_in_order(self) -> None:
        kinds = [type(state) for state in self.trail]
        order = [LookExact, LookSemantic, Hit, AskEngine, GiveUp]
        assert kinds == sorted(set(kinds), key=order.index)
        assert len([kind for kind in kinds if kind in order[2:]]) <= 1

    @invariant()
    def a_hit_is_alive_and_young_enough(self) -> None:
        if not isinstance(self.state, Hit):
            return
        hit = self.state
        until = hit.entry.exact_until if hit.tier == "exact" else hit.entry.semantic_until
        assert until > NOW
        assert hit.ttl == until - NOW
        assert hit.age >= 0
        assert self.plan.max_age is None or NOW - hit.entry.created_at <= self.plan.max_age
        assert not self.plan.fresh
        assert self.plan.exact if hit.tier == "exact" else self.plan.semantic

    @invariant()
    def the_caller_who_wants_only_the_cache_is_obeyed(self) -> None:
        assert not (isinstance(self.state, AskEngine) and self.plan.only_if_cached)
        assert not (isinstance(self.state, GiveUp) and not self.plan.only_if_cached)

    @invariant()
    def nothing_that_was_said_is_lost(self) -> None:
        if isinstance(self.state, LookSemantic | AskEngine | GiveUp):
            assert list(self.state.details) == self.said

    @invariant()
    def the_plan_stores_only_what_may_live(self) -> None:
        assert self.plan.store <= (max(self.plan.exact_ttl, self.plan.semantic_ttl) > 0)

    def teardown(self) -> None:
        """Whatever is still open ends in exactly one end."""
        while isinstance(self.state, LookExact | LookSemantic):
            self.missed("")
        assert isinstance(self.state, Hit | AskEngine | GiveUp)


TestAnyRequest = AnyRequest.TestCase

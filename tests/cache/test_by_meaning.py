"""Answers by meaning: found, proven, alive, and never passed on as something else."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from tests.cache.stage import CAT, LIVES, Stage

from askonce.cache import by_meaning
from askonce.cache.ask import Live
from askonce.canonical.entry import seal, unseal
from askonce.canonical.key import partition_key
from askonce.errors import StoreError
from askonce.events import GuardVetoed
from askonce.flow import Hit, Lives
from askonce.policy.controls import Controls
from askonce.testing.answers import Chat
from askonce.units import Seconds, UnixTime

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")
SECOND = Chat(text="Something else.")
LIKE_CAT = "What is a cat??"


async def filled(stage: Stage, text: str = CAT, **wishes: object) -> bytes:
    """Store the answer to a question; returns its key."""
    ask = stage.ask(text, **wishes)  # type: ignore[arg-type] # wishes of an ask
    await stage.get(ask)
    await stage.settled()
    return ask.key


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_in_other_words_is_a_hit(*, cold: bool, stream: bool) -> None:
    """A near question gets the stored answer with its score, from the hot copy or the store."""
    async with Stage(GOOD) as stage:
        await filled(stage)
        if cold:
            stage.exact.cool()
        got = await stage.get(LIKE_CAT, stream=stream)
        assert (got.how, got.text) == ("semantic", "A cat is an animal.")
        assert isinstance(got.reply, Hit)
        assert got.reply.score is not None
        assert 0.6 <= got.reply.score < 1
        assert got.reply.entry.question == CAT
        assert stage.calls == 1


async def test_a_semantic_hit_is_never_written_back() -> None:
    """A hit by meaning leaves store and index as they were; its question stays a guess."""
    async with Stage(GOOD) as stage:
        key = await filled(stage)
        for _ in range(2):
            assert (await stage.get(LIKE_CAT)).how == "semantic"
            assert await stage.stored() == 1
            assert set(stage.plain_index.rows) == {key}
        assert stage.exact.peek(stage.ask(LIKE_CAT).key) is None


async def test_a_guard_sends_a_look_alike_to_the_engine() -> None:
    """A look-alike is answered by the engine, which is told in the details."""
    async with Stage(GOOD, SECOND) as stage:
        await filled(stage, "Convert 100 USD to EUR")
        got = await stage.get("Convert 900 USD to EUR")
        assert (got.how, got.text) == ("engine", "Something else.")
        (veto,) = stage.sink.of(GuardVetoed)
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == (f"veto_{veto.guard}",)


@pytest.mark.parametrize(
    "other",
    [
        {"temperature": 0.5},
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        {"controls": Controls(namespace="blue")},
        {"response_format": {"type": "json_object"}},
    ],
)
async def test_another_frame_is_another_partition(other: dict[str, object]) -> None:
    """Everything but the question must be equal for an answer to count."""
    async with Stage(GOOD, Chat(text="{}")) as stage:
        await filled(stage)
        assert (await stage.get(LIKE_CAT, **other)).how == "engine"


async def test_semantics_can_be_refused() -> None:
    """A caller who wants no guess gets none, and its own answer is offered to nobody."""
    async with Stage(GOOD, SECOND) as stage:
        plain = Controls(semantic=False)
        await filled(stage)
        assert (await stage.get(LIKE_CAT, controls=plain)).how == "engine"
        await stage.settled()
        assert len(stage.plain_index.rows) == 1


async def test_the_second_life() -> None:
    """After its exact life an answer serves the same question by meaning, until that ends."""
    async with Stage(GOOD, SECOND) as stage:
        await filled(stage)
        stage.clock.advance(60)
        got = await stage.get()
        assert got.how == "semantic"
        assert isinstance(got.reply, Hit)
        assert (got.reply.age, got.reply.ttl) == (Seconds(60), Seconds(540))
        stage.clock.advance(540)
        assert (await stage.get(LIKE_CAT)).text == "Something else."


async def test_a_semantic_hit_never_extends_a_life() -> None:
    """However often it is read, an answer ends when it ends."""
    async with Stage(GOOD, SECOND) as stage:
        await filled(stage)
        for _ in range(5):
            stage.clock.advance(110)
            assert (await stage.get(LIKE_CAT)).how == "semantic"
            stage.exact.cool()
        stage.clock.advance(50)
        assert (await stage.get(LIKE_CAT)).how == "engine"


async def test_max_age_holds_by_meaning() -> None:
    """An answer too old for the caller is stale in this tier as well."""
    async with Stage(GOOD, SECOND) as stage:
        await filled(stage)
        stage.clock.advance(10)
        assert (await stage.get(LIKE_CAT, controls=Controls(max_age=Seconds(10)))).how == "semantic"
        got = await stage.get(LIKE_CAT, controls=Controls(max_age=Seconds(9)))
        assert got.how == "engine"
        assert isinstance(got.reply, Live)
        assert got.reply.head.forward == "stale"


async def test_only_the_semantic_tier() -> None:
    """With the exact tier off answers are stored for questions alone."""
    lives = Lives(exact=Seconds(0), semantic=Seconds(600))
    async with Stage(GOOD) as stage:
        await filled(stage, lives=lives)
        assert (await stage.get(LIKE_CAT, lives=lives)).how == "semantic"
        assert (await stage.get(CAT, lives=lives)).how == "semantic"
        assert stage.calls == 1


async def test_a_question_without_entry_is_skipped_and_forgotten() -> None:
    """A candidate whose entry is gone is passed over for the next one, and removed."""
    async with Stage(GOOD, SECOND) as stage:
        gone = await filled(stage, "What is a cat?!")
        there = await filled(stage, "What, is a bird?", controls=Controls(no_cache=True))
        assert set(stage.plain_index.rows) == {gone, there}
        await stage.memory.delete(gone)
        stage.exact.cool()
        got = await stage.get("What is a cat?")
        assert got.how in {"semantic", "engine"}
        await stage.settled()
        assert gone not in stage.plain_index.rows
        assert there in stage.plain_index.rows


async def test_the_next_candidate_is_served() -> None:
    """When the nearest entry is gone, the next one that passed every proof answers."""
    async with Stage(GOOD, SECOND) as stage:
        gone = await filled(stage, "What is a cat??")
        there = await filled(stage, "what is a cat", controls=Controls(no_cache=True))
        assert gone != there
        await stage.memory.delete(gone)
        stage.exact.cool()
        got = await stage.get("What is a cat?")
        assert (got.how, got.text) == ("semantic", "Something else.")
        await stage.settled()
        assert set(stage.plain_index.rows) == {there}


async def test_forgetting_spares_what_was_just_stored() -> None:
    """A question whose entry was lost is asked again and indexed again, not forgotten after."""
    async with Stage(GOOD, SECOND) as stage:
        key = await filled(stage)
        await stage.memory.delete(key)
        stage.exact.cool()
        assert (await stage.get()).how == "engine"
        await stage.settled()
        assert set(stage.plain_index.rows) == {key}
        assert (await stage.get(LIKE_CAT)).text == "Something else."


async def test_an_entry_for_another_question_is_not_served() -> None:
    """An index row whose entry says it answers something else is wrong, and removed."""
    async with Stage(GOOD, SECOND) as stage:
        key = await filled(stage)
        sealed = await stage.memory.get(key)
        assert sealed is not None
        other = msgspec.structs.replace(unseal(key, sealed), question="What is a dog?")
        await stage.memory.put(key, seal(other), ttl=Seconds(600))
        stage.exact.cool()
        assert (await stage.get(LIKE_CAT)).text == "Something else."
        await stage.settled()
        assert key not in stage.plain_index.rows


async def test_an_entry_that_lost_its_question_is_not_served() -> None:
    """An answer that was renewed without semantics serves its own request alone."""
    async with Stage(GOOD, SECOND, GOOD) as stage:
        await filled(stage)
        await filled(stage, controls=Controls(no_cache=True, semantic=False))
        assert (await stage.get(LIKE_CAT)).how == "engine"


@pytest.mark.parametrize("damage", [b"", b"rubbish"])
async def test_an_unreadable_candidate_is_skipped_and_forgotten(damage: bytes) -> None:
    """Damaged bytes cost neither the other candidates nor the question for ever."""
    async with Stage(GOOD, SECOND) as stage:
        bad = await filled(stage, "What is a cat??")
        there = await filled(stage, "what is a cat", controls=Controls(no_cache=True))
        await stage.memory.put(bad, damage, ttl=Seconds(600))
        stage.exact.cool()
        got = await stage.get("What is a cat?")
        assert (got.how, got.text) == ("semantic", "Something else.")
        await stage.settled()
        assert set(stage.plain_index.rows) == {there}


async def test_a_row_past_its_entrys_life_is_not_served() -> None:
    """An index that keeps rows too long cannot make an answer live longer."""
    async with Stage(GOOD, SECOND) as stage:
        key = await filled(stage, lives=Lives(Seconds(600), Seconds(60)))
        place, item, vector = stage.plain_index.rows[key]
        late = msgspec.structs.replace(item, expires_at=item.expires_at + 600)
        stage.plain_index.rows[key] = place, late, vector
        stage.clock.advance(60)
        assert (await stage.get(LIKE_CAT)).how == "engine"
        await stage.settled()
        assert key not in stage.plain_index.rows


async def test_a_question_longer_than_the_window_stays_exact() -> None:
    """A text that would be cut is neither looked up nor indexed, and says why."""
    long = "word " * 200
    async with Stage(GOOD) as stage:
        got = await stage.get(long)
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == ("semantic_too_long",)
        await stage.settled()
        assert stage.plain_index.rows == {}
        again = await stage.get(long)
        assert isinstance(again.reply, Hit)
        assert again.reply.entry.semantic_until == UnixTime(0)


async def test_a_question_is_embedded_once() -> None:
    """The vector of the search is the one that is stored; a hit by key embeds nothing."""
    async with Stage(GOOD) as stage:
        await filled(stage)
        assert stage.embedder.embedded == [CAT]
        await stage.get()
        assert stage.embedder.embedded == [CAT]


async def test_a_request_without_question_is_not_embedded() -> None:
    """A tool-result turn has no question: exact tier only."""
    messages = [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "w", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c", "content": "sun"},
    ]
    async with Stage(GOOD) as stage:
        assert (await stage.get(messages=messages)).how == "engine"
        assert (await stage.get(messages=messages)).how == "exact"
        await stage.settled()
        assert stage.embedder.embedded == []
        assert stage.plain_index.rows == {}


async def test_without_a_semantic_tier_there_is_the_exact_one() -> None:
    """A cache built without embedder and index stores and serves exactly, even when it is asked."""
    async with Stage(GOOD, SECOND, semantic=False) as stage:
        await filled(stage)
        assert (await stage.get()).how == "exact"
        assert (await stage.get(LIKE_CAT)).how == "engine"


async def test_a_failing_index_write_loses_only_itself() -> None:
    """When the question cannot be indexed, the exact entry is there all the same."""
    async with Stage(GOOD, SECOND) as stage:
        stage.plain_index.faulty = True
        await filled(stage)
        stage.plain_index.faulty = False
        assert (await stage.get()).how == "exact"
        assert (await stage.get(LIKE_CAT)).how == "engine"


async def test_a_dead_store_forgets_no_question() -> None:
    """That a store is dead does not say that the entry is gone."""
    async with Stage(GOOD, SECOND) as stage:
        key = await filled(stage)
        stage.exact.cool()
        await stage.memory.close()
        with pytest.raises(StoreError):
            await stage.memory.get(key)
        got = await stage.get(LIKE_CAT)
        assert got.how == "engine"
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == ("store_error", "semantic_error")
        await stage.settled()
        assert key in stage.plain_index.rows


async def test_paraphrases_in_flight_are_not_taken_for_one() -> None:
    """Two questions of like meaning at the same moment are two calls, each with its own answer."""
    async with Stage() as stage:
        stage.upstream.open.clear()
        tasks = [*stage.start(text=CAT), *stage.start(text=LIKE_CAT)]
        await stage.upstream.asked_times(2)
        stage.upstream.open.set()
        one, two = await asyncio.gather(*tasks)
        assert one.text.endswith(CAT)
        assert two.text.endswith(LIKE_CAT)


def test_the_default_lives_differ() -> None:
    """The stage's semantic life outlasts its exact one, as the defaults do."""
    assert LIVES.semantic > LIVES.exact


HISTORY = [
    {"role": "user", "content": "My landlord wants to raise the rent."},
    {"role": "assistant", "content": "Is it a fixed term?"},
]
CHATTY = [{**HISTORY[0], "content": "Hi! " + HISTORY[0]["content"]}, HISTORY[1]]
ANOTHER = [{**HISTORY[0], "content": "My employer wants to cut my pay."}, HISTORY[1]]


@pytest.mark.parametrize("cold", [False, True])
async def test_a_history_with_more_chatter_is_the_same_conversation(*, cold: bool) -> None:
    """Turns are kept with the entry, and those of the question are compared with them."""
    async with Stage(GOOD) as stage:
        await stage.get(stage.talk(HISTORY, CAT))
        await stage.settled()
        if cold:
            stage.exact.cool()
        got = await stage.get(stage.talk(CHATTY, LIKE_CAT))
        assert (got.how, stage.calls) == ("semantic", 1)


async def test_the_same_words_after_another_history_are_the_engines() -> None:
    """The guard of the context vetoes, and the entry it refused stays."""
    async with Stage(GOOD, SECOND, GOOD) as stage:
        await stage.get(stage.talk(HISTORY, CAT))
        await stage.settled()
        got = await stage.get(stage.talk(ANOTHER, LIKE_CAT))
        assert (got.how, stage.calls) == ("engine", 2)
        assert isinstance(got.reply, Live)
        assert got.reply.head.details == ("veto_context",)
        assert [event.guard for event in stage.sink.of(GuardVetoed)] == ["context"]
        await stage.settled()
        assert len(stage.plain_index.rows) == 2
        assert (await stage.get(stage.talk(CHATTY, LIKE_CAT))).text == "A cat is an animal."


async def test_conversations_compared_whole_never_meet_those_compared_by_meaning() -> None:
    """An entry that was stored under one rule is not found under the other."""
    async with Stage(GOOD, SECOND) as stage:
        await stage.get(stage.talk([], CAT))
        await stage.settled()
        assert (await stage.get(stage.talk([], LIKE_CAT, by_meaning=False))).how == "engine"


@pytest.mark.parametrize("other", [{"tenant": b"t" * 32}, {"namespace": "blue"}])
async def test_an_index_cannot_bring_another_callers_answer(other: dict[str, Any]) -> None:
    """Others may write to a shared index: what it says is checked by the entry itself."""
    async with Stage(GOOD, SECOND) as stage:
        key = await filled(stage)
        foreign = stage.ask(LIKE_CAT)
        foreign = msgspec.structs.replace(
            foreign, scope=msgspec.structs.replace(foreign.scope, **other)
        )
        item, vector = stage.plain_index.rows[key][1:]
        assert foreign.question is not None
        await stage.plain_index.add(partition_key(foreign.scope, foreign.question), item, vector)
        assert (await stage.get(foreign)).how == "engine"


async def test_histories_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others have their turn between two candidates, however much there is to read."""
    turns: list[int] = []
    turn = 0

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def reads(*_: object) -> bool:
        turns.append(turn)
        return False

    async with Stage(GOOD) as stage:
        for said in ("I have a tiger.", "Use metric units.", "In French, please."):
            await stage.get(stage.talk([{"role": "user", "content": said}], CAT))
            await stage.settled()
        monkeypatch.setattr(by_meaning, "one_question", reads)
        busy = asyncio.create_task(others())
        await stage.get(stage.talk([{"role": "user", "content": "Good day!"}], LIKE_CAT))
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
        assert len(set(turns)) == len(turns) == 3

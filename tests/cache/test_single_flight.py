"""Identical requests in flight ask the engine once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from tests.cache.stage import LIVES, Got, Stage, read, settle

from askonce.cache.ask import Collapsed, Live
from askonce.errors import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable
from askonce.policy.controls import Controls
from askonce.testing.answers import EVENTS, Chat, Reply, refusal
from askonce.units import Seconds

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")


async def together(stage: Stage, count: int, *, mixed: bool = False, **wishes: Any) -> list[Got]:
    """So many callers, all aboard before the engine begins."""
    stage.upstream.open.clear()
    tasks = []
    for number in range(count):
        delivery = {"stream": number % 2 == 1} if mixed else {}
        tasks += stage.start(**delivery, **wishes)
    await stage.upstream.asked_times(1)
    stage.upstream.open.set()
    return await asyncio.gather(*tasks)


@pytest.mark.parametrize("wishes", [{"stream": False}, {"stream": True}, {"mixed": True}], ids=str)
async def test_a_hundred_callers_make_one_call(wishes: dict[str, bool]) -> None:
    """However they want it delivered, a hundred get the whole answer of one call."""
    async with Stage(GOOD) as stage:
        got = await together(stage, 100, **wishes)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert stage.calls == 1
        hows = Counter(one.how for one in got)
        assert hows["engine"] == 1
        assert hows["rendered"] == (50 if "mixed" in wishes else 0)


async def test_streams_are_relayed_byte_for_byte() -> None:
    """Every streamed caller has the engine's own bytes."""
    async with Stage(GOOD) as stage:
        got = await together(stage, 5, stream=True)
        body = stage.upstream.otherwise
        assert callable(body)
        engine = GOOD(stage.upstream.asked[0]).body
        assert {one.raw for one in got} == {engine}


async def test_late_callers_join_a_live_stream() -> None:
    """A caller who comes while pieces flow reads from the first byte on, before the last exists."""
    async with Stage(GOOD) as stage:
        stage.upstream.meter()
        first = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.let(3)
        await settle()
        late = stage.start(stream=True)
        async with stage.cache.answering(stage.ask(stream=True)) as reply:
            assert isinstance(reply, Live)
            assert await anext(reply.flight.pieces(usage=False))
        stage.upstream.let(100)
        got = await asyncio.gather(*first, *late)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert stage.calls == 1


async def test_a_caller_right_after_the_landing_finds_it_hot() -> None:
    """Between the landing and the end of the write-back nobody asks the engine again."""
    async with Stage(GOOD) as stage:
        async with stage.cache.answering(stage.ask()) as reply:
            assert isinstance(reply, Live)
            again = await stage.get()
        assert (again.how, stage.calls) == ("exact", 1)


async def test_different_plans_do_not_share() -> None:
    """Callers with other wishes for the same request make a call of their own."""
    async with Stage() as stage:
        stage.upstream.open.clear()
        wishes = [
            Controls(),
            Controls(tags=("red",)),
            Controls(ttl=Seconds(5)),
            Controls(max_age=Seconds(5)),
            Controls(semantic=False),
        ]
        tasks = [task for wish in wishes for task in stage.start(2, controls=wish)]
        await stage.upstream.asked_times(len(wishes))
        stage.upstream.open.set()
        await asyncio.gather(*tasks)
        assert stage.calls == len(wishes)


async def test_different_requests_do_not_share() -> None:
    """Another question, another namespace: another call."""
    async with Stage() as stage:
        stage.upstream.open.clear()
        tasks = [
            *stage.start(text="one"),
            *stage.start(text="two"),
            *stage.start(text="one", controls=Controls(namespace="blue")),
        ]
        await stage.upstream.asked_times(3)
        stage.upstream.open.set()
        got = await asyncio.gather(*tasks)
        assert [one.how for one in got] == ["engine"] * 3


@pytest.mark.parametrize(
    "controls", [Controls(no_cache=True), Controls(no_store=True), Controls(max_age=Seconds(0))]
)
async def test_private_and_fresh_requests_do_not_share(controls: Controls) -> None:
    """No-store and no-cache get a call of their own, and give it to nobody."""
    async with Stage() as stage:
        stage.upstream.open.clear()
        tasks = stage.start(3, controls=controls)
        await stage.upstream.asked_times(3)
        stage.upstream.open.set()
        got = await asyncio.gather(*tasks)
        assert [one.how for one in got] == ["engine"] * 3


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Reply(fault="break_before"), UpstreamUnreachable),
        (Reply(fault="hang_before"), UpstreamTimeout),
        (
            Reply(headers=(EVENTS,), pieces=(b"data: x\n\n",), fault="break_inside", at=0),
            UpstreamBroken,
        ),
    ],
)
async def test_followers_of_a_failed_leader_ask_once_more(
    fault: Reply, error: type[Exception]
) -> None:
    """A leader that fails before its answer begins fails alone; the others share one more call."""
    async with Stage(fault, GOOD) as stage:
        stage.upstream.open.clear()
        leader = stage.start(stream=True)
        tasks = stage.start(99, stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*tasks)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert stage.calls == 2
        with pytest.raises(error):
            await leader[0]


async def test_followers_do_not_ask_a_dead_engine_for_ever() -> None:
    """When the second call fails as well, all get its error."""
    dead = Reply(fault="break_before")
    async with Stage(dead, dead, dead) as stage:
        stage.upstream.open.clear()
        tasks = stage.start(10)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        await asyncio.wait(tasks)
        assert {type(task.exception()) for task in tasks} == {UpstreamUnreachable}
        assert stage.calls == 2


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_that_may_pass_is_tried_once_more(status: int, *, stream: bool) -> None:
    """Followers of a 429 or 5xx share one more call."""
    async with Stage(refusal(status), GOOD) as stage:
        got = await together(stage, 50, stream=stream)
        assert Counter(one.status for one in got) == {status: 1, 200: 49}
        assert stage.calls == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_an_error_that_stays_is_shared(*, stream: bool) -> None:
    """When the engine refuses twice, all followers get its second refusal with its headers."""
    async with Stage(refusal(429), refusal(429)) as stage:
        got = await together(stage, 50, stream=stream)
        assert Counter(one.status for one in got) == {429: 50}
        assert stage.calls == 2
        reply = got[-1].reply
        assert isinstance(reply, Live)
        assert (b"retry-after", b"7") in reply.head.headers
        assert await stage.stored() == 0


@pytest.mark.parametrize("status", [400, 404, 422])
async def test_a_callers_fault_is_shared_at_once(status: int) -> None:
    """A 4xx is the same for all who ask the same, in either delivery."""
    async with Stage(refusal(status)) as stage:
        got = await together(stage, 20, mixed=True)
        assert Counter(one.status for one in got) == {status: 20}
        assert len({one.raw for one in got}) == 1
        assert stage.calls == 1
        assert await stage.stored() == 0


async def test_whole_followers_of_a_broken_stream_ask_again() -> None:
    """Those who stream get what came and the error; those who want it whole share one more call."""
    broken = Chat(text="A cat is an animal.", fault="break_inside", at=3)
    async with Stage(broken, GOOD) as stage:
        stage.upstream.open.clear()
        streams = stage.start(5, stream=True)
        wholes = stage.start(20)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*wholes)
        assert {one.text for one in got} == {"A cat is an animal."}
        await asyncio.wait(streams)
        assert {type(task.exception()) for task in streams} == {UpstreamBroken}
        assert stage.calls == 2
        assert stage.refusals == ["broken"]


@pytest.mark.parametrize("leader_streams", [False, True])
async def test_an_unreadable_answer_makes_no_herd(*, leader_streams: bool) -> None:
    """Callers of the leader's delivery share its bytes as they are; the others share one call."""
    odd = Reply(headers=((b"content-type", b"text/plain"),), pieces=(b"what?",))
    async with Stage(odd, odd, odd) as stage:
        stage.upstream.open.clear()
        leader = stage.start(stream=leader_streams)
        tasks = [*stage.start(20, stream=True), *stage.start(20)]
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*leader, *tasks)
        assert {one.raw for one in got} == {b"what?"}
        assert stage.calls == 2


async def test_a_stream_without_end_mark_makes_no_herd() -> None:
    """Whole callers of a stream that cannot be read whole share one more call."""
    async with Stage(Chat(text="half", done=False), GOOD) as stage:
        stage.upstream.open.clear()
        streams = stage.start(5, stream=True)
        wholes = stage.start(20)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*streams, *wholes)
        assert {one.text for one in got[5:]} == {"A cat is an animal."}
        assert stage.calls == 2


async def test_whole_callers_leave_a_stream_that_gets_too_long() -> None:
    """A stream longer than what is kept serves those who read it; the others ask for themselves."""
    long = Chat(text="word " * 400)
    async with Stage(long, long, max_entry_bytes=2000) as stage:
        stage.upstream.open.clear()
        streams = stage.start(3, stream=True)
        wholes = stage.start(5)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*streams, *wholes)
        assert {one.text for one in got} == {"word " * 400}
        assert stage.calls == 2
        assert await stage.stored() == 0
        assert set(stage.refusals) == {"oversize"}


async def test_nobody_joins_a_stream_past_its_bound() -> None:
    """A caller who comes too late for the first byte makes a call of its own."""
    long = Chat(text="word " * 400)
    async with Stage(long, long, max_entry_bytes=2000) as stage:
        stage.upstream.meter()
        first = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.let(50)
        await settle()
        second = stage.start(stream=True)
        await stage.upstream.asked_times(2)
        stage.upstream.let(10_000)
        got = await asyncio.gather(*first, *second)
        assert {one.text for one in got} == {"word " * 400}
        assert [one.how for one in got] == ["engine", "engine"]


async def test_an_old_flight_that_lands_leaves_the_new_one_alone() -> None:
    """When a flight too long to join ends, callers still find the one that took its place."""
    long = Chat(text="word " * 400)
    async with Stage(long, GOOD, max_entry_bytes=2000) as stage:
        stage.upstream.meter()
        first = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.let(50)
        await settle()
        stage.upstream.open.clear()
        second = stage.start(stream=True)
        await stage.upstream.asked_times(2)
        stage.upstream.let(10_000)
        await asyncio.gather(*first)
        await settle()
        third = stage.start(stream=True)
        await settle()
        stage.upstream.open.set()
        got = await asyncio.gather(*second, *third)
        assert [one.how for one in got] == ["engine", "collapsed"]
        assert stage.calls == 2


async def test_in_the_end_each_delivery_asks_for_itself_together() -> None:
    """After a refusal and a stream that cannot be read whole, the others share one more call."""
    async with Stage(refusal(503), Chat(text="half", done=False), GOOD) as stage:
        stage.upstream.open.clear()
        leader, *streams = stage.start(3, stream=True)
        wholes = stage.start(20)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*wholes)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert Counter(one.how for one in got) == {"engine": 1, "collapsed": 19}
        assert [(await one).text for one in streams] == ["<incomplete>"] * 2
        assert (await leader).status == 503
        assert stage.calls == 3


async def test_the_last_try_does_not_depend_on_the_other_delivery() -> None:
    """One more stream that cannot be read whole is not waited for by those who want it whole."""
    half = Chat(text="half", done=False)
    async with Stage(refusal(503), half, half, GOOD) as stage:

        async def twice() -> Got:
            await stage.get(stream=True)
            return await stage.get(stream=True)

        stage.upstream.open.clear()
        leader = stage.start(stream=True)
        streams = asyncio.create_task(twice())
        wholes = stage.start(5)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        got = await asyncio.gather(*wholes)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert (await streams).text == "<incomplete>"
        await asyncio.gather(*leader)
        assert stage.calls == 4


async def test_the_other_delivery_is_not_joined_in_the_end() -> None:
    """A caller whose last try finds a flight of the other delivery makes its own in its place."""
    async with Stage(GOOD, GOOD) as stage:
        stage.upstream.open.clear()
        streams = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        flight, leads = stage.cache._board(stage.ask(), picky=True)
        again, joined = stage.cache._board(stage.ask(), picky=True)
        assert (leads, joined, again) == (True, False, flight)
        stage.upstream.open.set()
        await asyncio.gather(*streams)


async def test_hits_are_shared_as_well() -> None:
    """Followers of a leader who finds the answer in the store get that hit."""
    async with Stage(GOOD) as stage:
        await stage.get()
        await stage.settled()
        stage.exact.cool()
        got = await asyncio.gather(*stage.start(10))
        assert Counter(one.how for one in got) == {"exact": 10}
        assert stage.calls == 1


async def test_giving_up_is_shared_as_well() -> None:
    """Those who want nothing but the cache never make a call, alone or together."""
    async with Stage() as stage:
        got = await asyncio.gather(*stage.start(5, controls=Controls(only_if_cached=True)))
        assert {one.how for one in got} == {"nothing"}
        assert stage.calls == 0


async def test_with_all_tiers_off_calls_are_still_shared() -> None:
    """A proxy without tiers stores nothing and asks once for all in flight."""
    off = type(LIVES)(Seconds(0), Seconds(0))
    async with Stage(GOOD) as stage:
        got = await together(stage, 10, lives=off)
        assert {one.text for one in got} == {"A cat is an animal."}
        assert stage.calls == 1
        assert await stage.stored() == 0


async def test_usage_reaches_only_who_asked() -> None:
    """One stream serves callers with and without usage, each as they asked."""
    async with Stage(GOOD) as stage:
        stage.upstream.open.clear()
        curious = stage.start(stream=True, usage=True)
        plain = stage.start(stream=True)
        await stage.upstream.asked_times(1)
        stage.upstream.open.set()
        with_usage, without = await asyncio.gather(*curious, *plain)
        assert b'"usage":{' in with_usage.raw
        assert b'"usage":{' not in without.raw
        assert stage.calls == 1


async def test_a_rendered_answer_carries_the_engines_head() -> None:
    """A follower in the other delivery knows how the engine was asked."""
    async with Stage(GOOD) as stage:
        got = await together(stage, 2, mixed=True)
        rendered = next(one.reply for one in got if one.how == "rendered")
        assert isinstance(rendered, Collapsed)
        assert rendered.head.forward == "miss"
        assert (await read(rendered)).text == "A cat is an animal."

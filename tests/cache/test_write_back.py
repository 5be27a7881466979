"""What is stored of an engine's answer, and what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.cache.stage import Stage

from askonce.cache.ask import Live
from askonce.errors import UpstreamBroken
from askonce.flow import Hit, Lives
from askonce.policy.controls import Controls
from askonce.testing.answers import EVENTS, JSON, Chat, Reply, Script, garbage_events, refusal
from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.anyio

GOOD = Chat(text="A cat is an animal.")
SECOND = Chat(text="Something else.")


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("then", [False, True])
async def test_what_was_asked_once_is_not_asked_again(*, first: bool, then: bool) -> None:
    """An answer is stored once it is whole, and serves both deliveries, hot or from the store."""
    async with Stage(GOOD) as stage:
        await stage.get(stream=first)
        hot = await stage.get(stream=then)
        await stage.settled()
        stage.exact.cool()
        cold = await stage.get(stream=then)
        assert (hot.how, cold.how) == ("exact", "exact")
        assert {hot.text, cold.text} == {"A cat is an animal."}
        assert stage.calls == 1
        assert stage.refusals == []


async def test_the_head_tells_that_it_is_stored() -> None:
    """A whole answer that is admitted says so, one that is not does not."""
    async with Stage(GOOD, Chat(text="x", finish="length")) as stage:
        heads = []
        for text in ("one", "two"):
            reply = (await stage.get(text)).reply
            assert isinstance(reply, Live)
            heads.append(reply.head.stored)
        assert heads == [True, False]


REFUSED: list[tuple[str, Script]] = [
    ("truncated", Chat(text="x", finish="length")),
    ("content_filter", Chat(text="x", finish="content_filter")),
    ("finish_reason", Chat(text="x", finish="insufficient_system_resource")),
    ("empty", Chat(text="")),
    ("tool_json", Chat(calls=(("weather", '{"city": '),))),
    ("oversize", Chat(text="x" * 200_000)),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("reason", "script"), REFUSED, ids=[reason for reason, _ in REFUSED])
async def test_a_bad_answer_is_delivered_but_not_stored(
    reason: str, script: Script, *, stream: bool
) -> None:
    """Each refusal lets the caller have the answer, stores nothing and is counted once."""
    async with Stage(script, GOOD) as stage:
        got = await stage.get(stream=stream)
        assert (got.how, got.status) == ("engine", 200)
        assert got.raw == script(stage.upstream.asked[0]).body  # type: ignore[operator] # a Chat
        assert await stage.stored() == 0
        assert stage.refusals == [reason]
        assert (await stage.get(stream=stream)).text == "A cat is an animal."
        assert stage.calls == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_promise_of_json_is_kept(*, stream: bool) -> None:
    """With `response_format` an answer that is no JSON is not stored, one that is, is."""
    wishes: dict[str, Any] = {"stream": stream, "response_format": {"type": "json_object"}}
    async with Stage(Chat(text="no json"), Chat(text='{"a": 1}')) as stage:
        assert (await stage.get(**wishes)).text == "no json"
        assert stage.refusals == ["not_json"]
        assert (await stage.get(**wishes)).text == '{"a": 1}'
        assert await stage.stored() == 1
        assert (await stage.get(**wishes)).how == "exact"


HALF = b'data: {"choices":[{"index":0,"delta":{"content":"A cat is"}}]}\n\n'
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
ODD: list[tuple[str, bool, Reply]] = [
    ("incomplete", True, Reply(headers=(EVENTS,), pieces=(HALF, END))),
    ("incomplete", True, Reply(headers=(EVENTS,), pieces=(HALF, b"data: [DONE]\n\n"))),
    ("incomplete", True, Reply(headers=(EVENTS,), pieces=(HALF, END, b"data: [DONE]\n"))),
    ("incomplete", True, Reply(headers=(EVENTS,), pieces=())),
    ("no_choices", True, Reply(headers=(EVENTS,), pieces=(b"data: [DONE]\n\n",))),
    ("garbage", True, garbage_events()),
    ("garbage", False, Reply(headers=(JSON,), pieces=(b"{not json",))),
    ("garbage", False, Reply(headers=(JSON,), pieces=(b"[" * 50_000,))),
    ("garbage", False, Reply(headers=(JSON,), pieces=(b"",))),
    ("content_type", False, Reply(headers=(EVENTS,), pieces=(HALF, END))),
    ("content_type", True, Reply(headers=(JSON,), pieces=(b'{"choices": []}',))),
    ("content_type", False, Reply(headers=(), pieces=(b"{}",))),
    ("content_type", False, Reply(status=201, pieces=(b"{}",))),
    ("content_type", False, Reply(headers=((b"content-type", b"text/html"),), pieces=(b"<p>",))),
    ("status", False, refusal(400)),
    ("status", True, refusal(503)),
    ("content_type", False, Reply(status=302, headers=((b"location", b"/"),))),
]


@pytest.mark.parametrize(("reason", "stream", "reply"), ODD)
async def test_an_odd_answer_passes_byte_for_byte(
    reason: str, reply: Reply, *, stream: bool
) -> None:
    """Whatever the engine says goes to its caller unchanged; none of it is stored."""
    async with Stage(reply) as stage:
        got = await stage.get(stream=stream)
        assert got.raw == reply.body
        assert got.status == reply.status
        assert await stage.stored() == 0
        assert stage.refusals == [reason]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_compressed_answer_is_not_read(*, stream: bool) -> None:
    """A body in gzip passes as it is."""
    script = Chat(text="x", gzipped=True)
    async with Stage(script) as stage:
        got = await stage.get(stream=stream)
        assert got.raw == script(stage.upstream.asked[0]).body
        assert await stage.stored() == 0
        assert stage.refusals == ["content_type"]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_breaks_off_is_not_stored(*, stream: bool) -> None:
    """Half an answer is an error for its caller, and a counted refusal."""
    script = Chat(text="A cat is an animal.", fault="break_inside", at=2 if stream else 0)
    async with Stage(script) as stage:
        with pytest.raises(UpstreamBroken):
            await stage.get(stream=stream)
        assert await stage.stored() == 0
        assert stage.refusals == ["broken"]


async def test_an_error_inside_a_stream_is_not_stored() -> None:
    """An error event after good ones passes, and spoils the answer."""
    async with Stage(Chat(text="A cat is an animal.", error_inside=True)) as stage:
        got = await stage.get(stream=True)
        assert b"engine died" in got.raw
        assert await stage.stored() == 0
        assert stage.refusals == ["error_in_stream"]


async def test_tool_calls_are_stored_for_the_very_same_request_alone() -> None:
    """A tool call is replayed exactly, and never offered to another question."""
    async with Stage(Chat(calls=(("weather", '{"city": "Rome"}'),))) as stage:
        await stage.get("Weather in Rome?")
        assert await stage.stored() == 1
        assert stage.plain_index.rows == {}
        again = await stage.get("Weather in Rome?")
        assert again.how == "exact"
        assert isinstance(again.reply, Hit)
        assert again.reply.entry.semantic_until == UnixTime(0)
        assert again.reply.entry.question == ""


async def test_no_store_leaves_nothing() -> None:
    """Nothing of a private answer is kept: not hot, not in the store, not in the index."""
    async with Stage(GOOD, SECOND) as stage:
        private = Controls(no_store=True)
        assert (await stage.get(controls=private)).text == "A cat is an animal."
        assert await stage.stored() == 0
        assert stage.plain_index.rows == {}
        assert stage.refusals == []
        assert (await stage.get()).text == "Something else."


async def test_a_private_answer_is_refused_by_nobody() -> None:
    """What is not to be stored is not counted as refused, however bad it is."""
    async with Stage(refusal(400), Chat(text="x", finish="length")) as stage:
        for _ in range(2):
            await stage.get(controls=Controls(no_store=True))
        assert stage.refusals == []


async def test_a_stream_may_be_any_iterator() -> None:
    """An upstream need not write its chunks as a generator."""

    class Plain:
        status = 200
        headers = (EVENTS,)

        def __init__(self) -> None:
            self.left = [b"data: [DONE]\n\n", b": hello\n\n"]

        def chunks(self) -> AsyncIterator[bytes]:
            return self

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            return self.left.pop()

        async def read(self) -> bytes:
            raise NotImplementedError

        async def close(self) -> None:
            pass

    async def send() -> Plain:
        return Plain()

    async with Stage() as stage:
        ask = msgspec.structs.replace(stage.ask(stream=True), send=send)
        assert (await stage.get(ask)).raw == b": hello\n\ndata: [DONE]\n\n"


async def test_no_store_may_read() -> None:
    """A private request may be answered by what others stored."""
    async with Stage(GOOD) as stage:
        await stage.get()
        assert (await stage.get(controls=Controls(no_store=True))).how == "exact"


@pytest.mark.parametrize("controls", [Controls(no_cache=True), Controls(max_age=Seconds(0))])
async def test_no_cache_asks_the_engine_and_renews_the_entry(controls: Controls) -> None:
    """A forced answer takes the place of the stored one, in both tiers."""
    async with Stage(GOOD, SECOND) as stage:
        await stage.get()
        got = await stage.get(controls=controls)
        assert (got.how, got.text) == ("engine", "Something else.")
        assert isinstance(got.reply, Live)
        assert got.reply.head.forward == "request"
        assert (await stage.get()).text == "Something else."
        near = await stage.get("What is a cat??")
        assert (near.how, near.text) == ("semantic", "Something else.")


async def test_max_age_is_obeyed() -> None:
    """An older answer is asked for anew and called stale, a younger one is served."""
    async with Stage(GOOD, SECOND) as stage:
        await stage.get()
        stage.clock.advance(10)
        old_enough = Controls(max_age=Seconds(10))
        assert (await stage.get(controls=old_enough)).how == "exact"
        got = await stage.get(controls=Controls(max_age=Seconds(9)))
        assert (got.how, got.text) == ("engine", "Something else.")
        assert isinstance(got.reply, Live)
        assert got.reply.head.forward == "stale"


async def test_only_if_cached_is_obeyed() -> None:
    """Who wants nothing but the cache gets a hit or nothing, and the engine has peace."""
    async with Stage(GOOD) as stage:
        only = Controls(only_if_cached=True)
        assert (await stage.get(controls=only)).how == "nothing"
        await stage.get()
        assert (await stage.get(controls=only)).how == "exact"
        assert (await stage.get("What is a cat??", controls=only)).how == "semantic"
        assert stage.calls == 1


async def test_a_life_of_the_callers_choice() -> None:
    """The TTL of the request that stored an answer ends it, in both tiers."""
    async with Stage(GOOD, SECOND) as stage:
        await stage.get(controls=Controls(ttl=Seconds(5)))
        await stage.settled()
        stage.clock.advance(4.9)
        assert (await stage.get()).how == "exact"
        stage.clock.advance(0.1)
        assert (await stage.get()).text == "Something else."


async def test_a_life_of_nothing_stores_nothing() -> None:
    """TTL 0 neither stores nor says so, and does not harm what is stored."""
    async with Stage(GOOD, SECOND) as stage:
        await stage.get()
        zero = Controls(ttl=Seconds(0), no_cache=True)
        reply = (await stage.get(controls=zero)).reply
        assert isinstance(reply, Live)
        assert not reply.head.stored
        assert await stage.stored() == 1
        assert (await stage.get()).text == "A cat is an animal."


async def test_a_hit_never_extends_a_life() -> None:
    """However often it is read, an answer ends when it ends, hot and cold."""
    async with Stage(GOOD, SECOND) as stage:
        exact_only = Lives(exact=Seconds(60), semantic=Seconds(0))
        await stage.get(lives=exact_only)
        await stage.settled()
        for _ in range(5):
            stage.clock.advance(11)
            got = await stage.get(lives=exact_only)
            assert isinstance(got.reply, Hit)
            stage.exact.cool()
            await stage.get(lives=exact_only)
        assert isinstance(got.reply, Hit)
        assert got.reply.age == Seconds(55)
        assert got.reply.ttl == pytest.approx(5)
        stage.clock.advance(5)
        assert (await stage.get(lives=exact_only)).text == "Something else."


async def test_peeking_needs_no_waiting() -> None:
    """The hot exact hit is there at once, for those who may use it."""
    async with Stage(GOOD) as stage:
        ask, fresh = stage.ask(), stage.ask(controls=Controls(no_cache=True))
        assert stage.cache.peek(ask.key, ask.plan) is None
        await stage.get()
        hit = stage.cache.peek(ask.key, ask.plan)
        assert hit is not None
        assert hit.tier == "exact"
        assert stage.cache.peek(fresh.key, fresh.plan) is None
        stage.clock.advance(60)
        assert stage.cache.peek(ask.key, ask.plan) is None


async def test_tags_go_with_the_entry() -> None:
    """What was stored under a tag can be taken away by it."""
    async with Stage(GOOD) as stage:
        await stage.get(controls=Controls(tags=("red",)))
        await stage.settled()
        assert await stage.memory.delete_tag("red") == 1


async def test_the_engines_time_is_kept() -> None:
    """An entry knows how long its answer took."""
    async with Stage(GOOD) as stage:
        stage.upstream.open.clear()
        (task,) = stage.start()
        await stage.upstream.asked_times(1)
        stage.clock.advance(3)
        stage.upstream.open.set()
        await task
        again = (await stage.get()).reply
        assert isinstance(again, Hit)
        assert again.entry.engine_time == Seconds(3)

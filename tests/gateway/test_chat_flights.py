"""Many callers, one engine call, over sockets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.gateway.house import AUTH, CHAT, body_of, marks, open_house

from askonce.stores.hot import HotEntries
from askonce.testing.answers import JSON, Chat, Reply, garbage_events
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.gateway.house import House

    from askonce.testing.caller import Answer

pytestmark = pytest.mark.anyio


def text_of(answer: Answer) -> str:
    """What the answer says, in either delivery."""
    if not answer.headers["content-type"].startswith("text/event-stream"):
        return str(answer.json["choices"][0]["message"]["content"])
    events = [line[6:] for line in answer.body.split(b"\n\n") if line]
    assert events.pop() == b"[DONE]"
    chunks = [msgspec.json.decode(event) for event in events]
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])


async def crowd(house: House, streams: list[bool]) -> list[Answer]:
    return await asyncio.gather(*(house.ask(body_of(stream=stream)) for stream in streams))


@pytest.mark.parametrize("kind", ["streamed", "whole", "mixed"])
async def test_a_hundred_equal_requests_make_one_call(tmp_path: Path, kind: str) -> None:
    """Streamed, whole or mixed: all get the answer, one is computed, all but one collapsed."""
    streams = [{"streamed": True, "whole": False}.get(kind, i % 2 == 0) for i in range(100)]
    chat = Chat(text="one and the same answer", delay=0.2, pause=0.01)
    async with open_house(tmp_path, FakeEngine(otherwise=chat)) as house:
        answers = await crowd(house, streams)
        assert len(house.asked) == 1
        shared = await house.metric('askonce_requests_total{outcome="ok",tier="collapsed"}')
        again = await house.ask(body_of(stream=True))
    assert {answer.status for answer in answers} == {200}
    assert {text_of(answer) for answer in [*answers, again]} == {"one and the same answer"}
    collapsed = ["collapsed" in marks(answer) for answer in answers]
    assert collapsed.count(False) == 1
    assert shared == 99
    assert marks(again)[1] == "hit"
    for answer, stream in zip(answers, streams, strict=True):
        assert answer.headers["content-type"].startswith(
            "text/event-stream" if stream else "application/json"
        )


@pytest.mark.parametrize("stream", [True, False])
async def test_a_leader_that_hangs_up_loses_nobodys_answer(tmp_path: Path, *, stream: bool) -> None:
    """When the first caller leaves half-way the others get all of it, and it is stored."""
    chat = Chat(text="an answer of several words", delay=0.1, pause=0.03)
    async with open_house(tmp_path, FakeEngine(otherwise=chat)) as house:
        async with house.caller() as leader:
            body = msgspec.json.encode(body_of(stream=stream))
            head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\n{AUTH}\r\ncontent-length: {len(body)}"
            await leader.send(head.encode() + b"\r\n\r\n" + body)
            async with asyncio.timeout(5):
                while not house.asked:
                    await asyncio.sleep(0.005)
            others = asyncio.gather(*(house.ask(body_of(stream=s)) for s in (True, False, stream)))
            if stream:
                await leader.head()
                await leader.chunk()
            leader.writer.transport.abort()
        answers = await others
        hit = await house.ask(body_of())
        assert len(house.asked) == 1
    assert {text_of(answer) for answer in answers} == {"an answer of several words"}
    assert all("collapsed" in marks(answer) for answer in answers)
    assert marks(hit)[1] == "hit"


async def test_a_caller_alone_that_hangs_up_still_fills(tmp_path: Path) -> None:
    """Nobody waits any more, yet the answer that was begun is stored."""
    chat = Chat(text="kept", delay=0.1)
    async with open_house(tmp_path, FakeEngine(otherwise=chat)) as house:
        async with house.caller() as caller:
            body = msgspec.json.encode(body_of())
            head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\n{AUTH}\r\ncontent-length: {len(body)}"
            await caller.send(head.encode() + b"\r\n\r\n" + body)
            async with asyncio.timeout(5):
                while not house.asked:
                    await asyncio.sleep(0.005)
        await house.settled()
        hit = await house.ask(body_of())
        assert len(house.asked) == 1
    assert marks(hit)[1] == "hit"


async def test_an_answer_not_to_be_stored_ends_with_its_caller(tmp_path: Path) -> None:
    """A caller of `no-store` who hangs up takes the engine's work along."""
    engine = FakeEngine(Reply(fault="hang_before"))
    async with open_house(tmp_path, engine) as house:
        async with house.caller() as caller:
            body = msgspec.json.encode(body_of())
            head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\n{AUTH}\r\ncache-control: no-store"
            length = f"\r\ncontent-length: {len(body)}\r\n\r\n"
            await caller.send((head + length).encode() + body)
            async with asyncio.timeout(5):
                while not engine.asked:
                    await asyncio.sleep(0.005)
        async with asyncio.timeout(5):
            while not engine.abandoned:
                await asyncio.sleep(0.005)
        await house.settled()


async def test_what_is_one_callers_is_not_shared(tmp_path: Path) -> None:
    """The cookie and request id of the engine's answer go to the leader alone."""
    headers = (JSON, (b"set-cookie", b"session=1"), (b"x-request-id", b"up"), (b"x-more", b"y"))
    chat = Chat(text="answer", delay=0.2, headers=headers)
    async with open_house(tmp_path, FakeEngine(otherwise=chat)) as house:
        answers = await crowd(house, [False] * 3)
        hit = await house.ask(body_of())
    followers = [answer for answer in answers if "collapsed" in marks(answer)]
    leader = next(answer for answer in answers if answer not in followers)
    assert leader.headers["set-cookie"] == "session=1"
    assert leader.headers["x-request-id"] == "up"
    assert len(followers) == 2
    for answer in (*followers, hit):
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-request-id"] != "up"
    assert {answer.headers["x-more"] for answer in answers} == {"y"}
    assert len({answer.headers["x-request-id"] for answer in (*answers, hit)}) == 4


async def test_a_failed_leader_does_not_fail_its_followers(tmp_path: Path) -> None:
    """When the shared call breaks, those who wait ask again, together."""
    engine = FakeEngine(Reply(fault="break_before", delay=0.2), otherwise=Chat(text="fine"))
    async with open_house(tmp_path, engine) as house:
        answers = await crowd(house, [False] * 20)
        assert len(engine.asked) == 2
    assert sorted(answer.status for answer in answers) == [200] * 19 + [502]


async def test_nothing_of_a_request_stays(tmp_path: Path) -> None:
    """After two thousand distinct requests no flight and no task is left, and bounds hold."""
    bounds = {"memory_bytes": 20_000, "disk_bytes": 1 << 20, "store": "memory"}
    async with open_house(tmp_path, exact=bounds) as house:
        await house.ask(body_of("before"))
        before = len(asyncio.all_tasks())

        async def many(worker: int) -> None:
            async with house.caller() as caller:
                for i in range(200):
                    body = msgspec.json.encode(body_of(f"{worker}-{i}", stream=i % 2 == 0))
                    assert (await caller.ask("POST", CHAT, body, AUTH)).status == 200

        await asyncio.gather(*map(many, range(10)))
        await house.settled()
        assert len(house.asked) == 2001
        assert not house.cache._flights
        assert not house.cache._leads
        async with asyncio.timeout(5):
            while len(asyncio.all_tasks()) > before + 10:  # the engine's kept connections
                await asyncio.sleep(0.01)
        held = await house.parts.store.stats()
        hot = house.cache._parts.exact._hot
        assert held.size <= 1 << 20
        assert isinstance(hot, HotEntries)
        assert 0 < len(hot) < 100


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_too_long_to_keep_reaches_all(tmp_path: Path, *, stream: bool) -> None:
    """Past the bound nothing is stored, and everybody still gets every byte."""
    text = "word " * 4000
    chat = Chat(text=text, delay=0.1)
    bounds = {"max_entry_bytes": 2000}
    async with open_house(tmp_path, FakeEngine(otherwise=chat), exact=bounds) as house:
        answers = await crowd(house, [stream] * 5)
        refused = await house.metric('askonce_admission_refused_total{reason="oversize"}')
        assert (await house.parts.store.stats()).entries == 0
        assert refused == len(house.asked)
    assert {text_of(answer) for answer in answers} == {text}


async def test_callers_of_both_kinds_get_an_answer_that_cannot_be_put_together(
    tmp_path: Path,
) -> None:
    """Who waits for the other delivery asks again when a stream cannot be turned into it."""
    engine = FakeEngine(garbage_events(), otherwise=Chat(text="fine", delay=0.05))
    async with open_house(tmp_path, engine) as house:
        first = asyncio.create_task(house.ask(body_of(stream=True)))
        while not house.cache._flights:
            await asyncio.sleep(0)
        answers = await crowd(house, [False] * 5)
        odd = await first
        assert len(engine.asked) == 2
    assert odd.body == garbage_events().body
    assert {text_of(answer) for answer in answers} == {"fine"}

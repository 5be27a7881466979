"""A gateway's life: its own pages, its end, its restart, and others beside it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import uvicorn
from tests.gateway.house import CHAT, House, body_of, config_of, marks, near, open_house

from askonce.config import Config
from askonce.errors import ConfigError
from askonce.gateway.service import Service
from askonce.testing.answers import Chat
from askonce.testing.engine import FakeEngine

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

FIRST = "What is the capital of France?"
AGAIN = "what is the capital of France?"


async def test_hits_outlive_a_restart(tmp_path: Path) -> None:
    """What one run has stored the next one serves, by the letter and by meaning."""
    async with FakeEngine() as engine:
        async with open_house(tmp_path, engine, started=True, embedder=near()) as house:
            await house.ask(body_of(FIRST))
        async with open_house(tmp_path, engine, started=True, embedder=near()) as house:
            exact = await house.ask(body_of(FIRST))
            semantic = await house.ask(body_of(AGAIN))
        assert len(engine.asked) == 1
    assert marks(exact)[3] == "detail=exact"
    assert marks(semantic)[3] == "detail=semantic"


async def test_the_secret_outlives_a_restart_and_is_private(tmp_path: Path) -> None:
    """The key of the tenants' hash is made once, for its owner alone."""
    async with open_house(tmp_path):
        secret = (tmp_path / "secret").read_bytes()
    async with open_house(tmp_path):
        assert (tmp_path / "secret").read_bytes() == secret
    assert (tmp_path / "secret").stat().st_mode & 0o077 == 0


async def test_a_new_secret_makes_new_partitions(tmp_path: Path) -> None:
    """With another secret no credential finds what it stored under the first."""
    async with FakeEngine() as engine:
        for tenants in ({"secret": "one"}, {"secret": "two"}):
            async with open_house(tmp_path, engine, started=True, tenants=tenants) as house:
                assert (await house.ask(body_of())).headers["x-cache"] == "MISS"


async def test_two_beside_each_other_share(tmp_path: Path) -> None:
    """Two gateways on one directory serve each other's answers, both kinds."""
    async with (
        FakeEngine() as engine,
        open_house(tmp_path, engine, started=True, embedder=near()) as one,
        open_house(tmp_path, engine, started=True, embedder=near()) as two,
    ):
        await one.ask(body_of(FIRST))
        exact = await two.ask(body_of(FIRST))
        async with asyncio.timeout(5):
            while (
                marks(semantic := await two.ask(body_of(AGAIN), "cache-control: only-if-cached"))[1]
                != "hit"
            ):
                await asyncio.sleep(0.05)
        assert len(engine.asked) == 1
    assert marks(exact)[3] == "detail=exact"
    assert marks(semantic)[3] == "detail=semantic"


async def test_what_one_clears_the_other_stops_serving(tmp_path: Path) -> None:
    """A second after one process has cleared the store no copy of it is served anywhere."""
    async with (
        FakeEngine() as engine,
        open_house(tmp_path, engine, started=True, embedder=near()) as one,
        open_house(tmp_path, engine, started=True, embedder=near()) as two,
    ):
        for house in (one, two):
            await house.ask(body_of(FIRST))
        await asyncio.sleep(0.6)
        await one.parts.store.clear()
        cleared = time.monotonic()
        async with asyncio.timeout(5):
            while (await two.ask(body_of(FIRST), "cache-control: only-if-cached")).status == 200:
                await asyncio.sleep(0.02)
        assert time.monotonic() - cleared < 1.0
        again = await two.ask(body_of(AGAIN), "cache-control: only-if-cached")
        assert again.status == 504
        assert len(engine.asked) == 1


async def test_the_end_waits_for_answers_under_way(tmp_path: Path) -> None:
    """Stopping lets a flight land and be stored, though its caller is gone."""
    body = b'{"model":"m","messages":[{"role":"user","content":"x"}]}'
    head = f"POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {len(body)}\r\n\r\n"
    async with FakeEngine(otherwise=Chat(text="late", delay=0.3)) as engine:
        async with (
            open_house(tmp_path, engine, started=True) as house,
            house.caller() as caller,
        ):
            await caller.send(head.encode() + body)
            async with asyncio.timeout(5):
                while not engine.asked:
                    await asyncio.sleep(0.005)
        async with open_house(tmp_path, engine, started=True) as house:
            hit = await house.send("POST", CHAT, body)
        assert len(engine.asked) == 1
    assert hit.headers["x-cache"] == "HIT"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_server_that_stops_lets_its_callers_finish(tmp_path: Path, *, stream: bool) -> None:
    """Whoever waits when the server is told to stop still gets all of the answer."""
    async with FakeEngine(otherwise=Chat(text="a b c", delay=0.2, pause=0.05)) as engine:
        service = Service(config_of(tmp_path, engine.url))
        server = uvicorn.Server(
            uvicorn.Config(service.gateway(), port=0, log_config=None, lifespan="on", ws="none")
        )
        running = asyncio.create_task(server.serve())
        async with asyncio.timeout(10):
            while not server.started:
                await asyncio.sleep(0.01)
            house = House(service, server.servers[0].sockets[0].getsockname()[1], (engine,))
            waiting = asyncio.create_task(house.send_only(body_of(stream=stream)))
            while not engine.asked:
                await asyncio.sleep(0.005)
            server.should_exit = True
            answer = await waiting
            await running
    assert answer.status == 200
    assert answer.whole
    assert answer.body.endswith(b"data: [DONE]\n\n" if stream else b"}")


async def test_nothing_is_left_after_the_end(tmp_path: Path) -> None:
    """Threads and tasks of a gateway end with it."""
    threads, tasks = set(threading.enumerate()), asyncio.all_tasks()
    async with open_house(tmp_path, embedder=near()) as house:
        await house.ask(body_of(FIRST))
    async with asyncio.timeout(5):
        while asyncio.all_tasks() - tasks:
            await asyncio.sleep(0.01)
    left = {each.name for each in set(threading.enumerate()) - threads}
    assert not {name for name in left if "askonce" in name}


@pytest.mark.parametrize(
    "urls",
    [(), ("ftp://nowhere/v1",)],
)
async def test_a_start_that_fails_leaves_nothing_open(
    tmp_path: Path, urls: tuple[str, ...]
) -> None:
    """A configuration that cannot be used is told, and no thread stays."""
    threads = set(threading.enumerate())
    service = Service(config_of(tmp_path, *urls))
    with pytest.raises(ConfigError):
        await service.start()
    left = {each.name for each in set(threading.enumerate()) - threads}
    assert not {name for name in left if "askonce" in name}


async def test_the_gateways_own_pages(tmp_path: Path) -> None:
    """Health, readiness and metrics answer GET and HEAD, each with a request id."""
    async with open_house(tmp_path) as house:
        for path in ("/healthz", "/readyz", "/metrics"):
            answer = await house.get(path)
            head = await house.send("HEAD", path, b"")
            assert (answer.status, head.status, head.body) == (200, 200, b"")
            assert answer.headers["x-request-id"]
        assert (await house.get("/healthz")).json == {"status": "ok"}
        assert (await house.get("/readyz")).json == {"status": "ready", "semantic": "off"}
        assert not house.asked


async def test_readiness_says_why_meaning_is_off(tmp_path: Path) -> None:
    """A semantic tier that cannot be opened is left off, in plain words, and all else serves."""
    semantic = {"enabled": True, "model": str(tmp_path / "missing.onnx")}
    async with open_house(tmp_path / "data", semantic=semantic) as house:
        ready = await house.get("/readyz")
        answer = await house.ask(body_of())
    assert ready.status == 200
    assert ready.json["semantic"].startswith("off: ")
    assert "missing.onnx" in ready.json["semantic"]
    assert answer.status == 200


async def test_nothing_is_served_before_the_start() -> None:
    """A gateway that has not started says so."""
    service = Service(Config())
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"{}"}

    scope = {"type": "http", "method": "POST", "headers": [], "query_string": b""}
    for path in (CHAT, "/v1/models", "/readyz"):
        await service.gateway()(
            {**scope, "path": path, "method": "GET"[: 4 * (path == "/readyz")] or "POST"},
            receive,
            send,
        )
    assert [m["status"] for m in sent if m["type"] == "http.response.start"] == [503] * 3


async def test_metrics_tell_what_happened(tmp_path: Path) -> None:
    """Requests by tier and outcome, their times, tokens saved, refusals and what is held."""
    engine = FakeEngine(Chat(text="a b c d"), Chat(text="cut", finish="length"))
    async with open_house(tmp_path, engine, embedder=near()) as house:
        for text in (FIRST, FIRST, "Something else entirely, is it?", AGAIN):
            await house.ask(body_of(text))
        page = (await house.get("/metrics")).body.decode()
        kind = (await house.get("/metrics")).headers["content-type"]
        lines = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert kind.startswith("text/plain")
    for series, value in {
        'askonce_requests_total{outcome="ok",tier="engine"}': 2,
        'askonce_requests_total{outcome="ok",tier="exact"}': 1,
        'askonce_requests_total{outcome="ok",tier="semantic"}': 1,
        'askonce_request_seconds_count{tier="exact"}': 1,
        'askonce_ttft_seconds_count{tier="engine"}': 2,
        'askonce_tokens_saved_total{kind="completion"}': 8,
        'askonce_admission_refused_total{reason="truncated"}': 1,
        'askonce_breaker_state{part="store"}': 0,
        "askonce_workers": 1,
    }.items():
        assert float(lines[series]) == value, series

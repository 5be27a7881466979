"""A running gateway: opened with the server's start, closed with its end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import secrets
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.cache.upkeep import follow_epoch, tell_sizes
from askonce.clock import SystemClock
from askonce.deadline import Deadlines
from askonce.errors import CacheFault, RequestError
from askonce.flow import Lives
from askonce.gateway.admin.build import AdminParts, admin_of
from askonce.gateway.app import Gateway
from askonce.gateway.chat import PATH as CHAT_PATH
from askonce.gateway.chat import ChatRoute, ChatSettings
from askonce.gateway.envelope import envelope_reader
from askonce.gateway.feedback import PATH as FEEDBACK_PATH
from askonce.gateway.feedback import FeedbackRoute
from askonce.gateway.http import PacedReceive, is_encoded, send_json, send_response
from askonce.gateway.passthrough import Passthrough
from askonce.gateway.recording import Recording
from askonce.gateway.routing import Upstreams
from askonce.gateway.tenants import author_of, partitioner
from askonce.invalidation.files import follow_files
from askonce.orphan import worker_dies_with_server
from askonce.ports import SupportsEpoch, SupportsWatch
from askonce.settings.files import server_secret
from askonce.settings.load import take_over
from askonce.telemetry.fanout import Fanout
from askonce.telemetry.figures import run_directory
from askonce.telemetry.log import LogSink
from askonce.telemetry.prometheus import CONTENT_TYPE, PrometheusSink
from askonce.telemetry.recorder import Recorder
from askonce.units import Seconds
from askonce.wiring import build_cache, open_parts, watched_files

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from askonce.config import Config
    from askonce.gateway.envelope import Envelope
    from askonce.gateway.http import Handler, Receive, Scope, Send
    from askonce.invalidation.watch import Watch
    from askonce.ports import Clock, Headers
    from askonce.wiring import Built, Parts

    OpensParts = Callable[..., Coroutine[Any, Any, Parts]]

YOUNG_OBJECTS = 10_000
"""New objects until the collector looks at them: a few hundred requests under way."""

IDS_AT_ONCE = 256
"""Identifiers for which the system is asked once: a call of it costs more than the rest."""

GRACE = 10.0
"""Seconds that answers under way have to end and be stored when the server stops."""

LONG_PATIENCE = Seconds(10.0)
"""Seconds that the start gives to the evidence of earlier days."""

PATIENCE = 1.0
"""Seconds that the start waits for the store; a locked one is left for later."""


class Service:
    """Everything behind the routes, from start to stop."""

    def __init__(
        self, config: Config, *, open_parts: OpensParts = open_parts, clock: Clock | None = None
    ) -> None:
        """Opens nothing: that needs a running event loop.

        open_parts: how the parts behind the configuration come about.
        """
        self._config = config
        self._open_parts = open_parts
        self._clock = clock or SystemClock()
        self._figures = PrometheusSink(_shared_figures(config))
        self._sink = Fanout((self._figures, LogSink()))
        self._parts: Parts | None = None
        self._built: Built | None = None
        self._chat: Handler = _not_started
        self._passthrough: Handler = _not_started
        self._feedback: Handler = _not_started
        self._admin: Handler = _not_started
        self._slow_bodies = Deadlines(config.server.body_timeout)
        self._recorder: Recorder | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def gateway(self) -> Gateway:
        """The ASGI application."""
        routes: dict[tuple[str, str], Handler] = {
            ("POST", CHAT_PATH): self.chat,
            ("POST", FEEDBACK_PATH): self.feedback,
            ("GET", "/healthz"): self.healthz,
            ("GET", "/readyz"): self.readyz,
            ("GET", "/metrics"): self.metrics,
        }
        return Gateway(
            routes,
            self.passthrough,
            new_id=new_id,
            startup=self.start,
            shutdown=self.stop,
            admin=(self._config.admin.port, self.admin),
        )

    async def start(self) -> None:
        """Open all parts; raises ConfigError, and then leaves nothing open."""
        config, clock, sink = self._config, self._clock, self._sink
        secret = config.tenants.secret.encode() or await asyncio.to_thread(
            server_secret, Path(config.server.data_dir)
        )
        self._parts = parts = await self._open_parts(config, clock=clock, sink=sink)
        try:
            await self._build(parts, secret)
        except BaseException:
            await self.stop()
            raise
        with contextlib.suppress(CacheFault, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await parts.store.stats()  # opens what opens late, before the first deadline
        await self._look_back()
        await self._remember()

    async def _look_back(self) -> None:
        """Learn what was taken back: nothing is served before that is known."""
        watch = self._built.watch if self._built is not None else None
        if watch is not None:
            with contextlib.suppress(CacheFault, TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await watch.refresh()
            self._tasks.append(asyncio.create_task(watch.follow()))
            self._follow_files(watch)

    def _follow_files(self, watch: Watch) -> None:
        desk = self._built.desk if self._built is not None else None
        files = watched_files(self._config.invalidation)
        if desk is not None and files:
            self._tasks.append(asyncio.create_task(follow_files(files, watch, desk)))

    async def _remember(self) -> None:
        """Take the evidence of earlier days; what of it is not taken quickly follows."""
        learning = self._built.learning if self._built is not None else None
        if learning is not None:
            await learning.remember(LONG_PATIENCE)
            self._tasks.append(asyncio.create_task(learning.follow()))

    async def _build(self, parts: Parts, secret: bytes) -> None:
        config, clock, sink = self._config, self._clock, self._sink
        upstreams = Upstreams(parts.upstreams)
        partition = partitioner(config.tenants, secret)
        author = author_of(config.tenants, secret)
        read_envelope = envelope_reader(
            config.controls, partition, config.exact.ignored_headers, author
        )
        self._built = built = await build_cache(
            config, parts, secret=secret, clock=clock, sink=sink
        )
        if built.learning is not None:
            self._feedback = FeedbackRoute(built.learning, read_envelope)
        self._operate(parts, built, upstreams, read_envelope)
        self._passthrough = Passthrough(upstreams, buffer_limit=config.server.max_body_bytes)
        self._chat = ChatRoute(
            built.cache,
            upstreams,
            read_envelope,
            _chat_settings(config, parts),
            clock=clock,
            sink=sink,
            new_id=new_id,
        )
        if config.record.path:
            self._recorder = Recorder.configured(config, sink)
            recording = Recording(self._recorder, read_envelope, clock)
            self._chat = recording.around(self._chat)
            self._passthrough = recording.around(self._passthrough)
        upkeep = [tell_sizes(parts.store, parts.index, sink), self._figures.keep_publishing()]
        if isinstance(parts.store, SupportsWatch):
            parts.store.watch(built.exact.changed)
        elif isinstance(parts.store, SupportsEpoch):
            upkeep.append(follow_epoch(parts.store, built.exact))
        self._tasks = [asyncio.create_task(work) for work in upkeep]

    def _operate(
        self,
        parts: Parts,
        built: Built,
        upstreams: Upstreams,
        read_envelope: Callable[[Headers], Envelope],
    ) -> None:
        """Open the operators' API, if there is to be one."""
        if self._config.admin.port and built.desk is not None:
            self._admin = admin_of(
                AdminParts(
                    config=self._config,
                    parts=parts,
                    built=built,
                    upstreams=upstreams,
                    read_envelope=read_envelope,
                    render=self._figures.render,
                    clock=self._clock,
                )
            )

    async def stop(self) -> None:
        """Let answers under way end, then close all parts."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._built is not None:
            await self._built.close(GRACE)
        if self._recorder is not None:
            await self._recorder.close()
        if self._parts is not None:
            await self._parts.close()

    async def chat(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /v1/chat/completions`; a compressed request passes through."""
        serve = self._passthrough if is_encoded(scope["headers"]) else self._chat
        await serve(scope, PacedReceive(receive, self._slow_bodies), send)

    async def feedback(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`POST /askonce/feedback`."""
        await self._feedback(scope, receive, send)

    async def admin(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Everything at the operators' port."""
        await self._admin(scope, receive, send)

    async def passthrough(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Every other path under `/v1/`."""
        await self._passthrough(scope, PacedReceive(receive, self._slow_bodies), send)

    async def healthz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """The process lives; says nothing about its parts."""
        await send_json(send, 200, b'{"status":"ok"}')

    async def readyz(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Requests can be served; names what works with less than was configured."""
        ready = self._parts is not None
        state = {
            "status": "ready" if ready else "starting",
            "semantic": _semantic_state(self._config, self._parts),
        }
        watch = self._built.watch if self._built is not None else None
        if watch is not None and watch.blind:
            state["cache"] = "off: it cannot be read what was taken back"
        await send_json(send, 200 if ready else 503, msgspec.json.encode(state))

    async def metrics(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Figures for Prometheus."""
        page = await asyncio.to_thread(self._figures.render)
        kind = (b"content-type", CONTENT_TYPE.encode())
        await send_response(send, 200, [kind, (b"content-length", b"%d" % len(page))], page)


def from_environment() -> Gateway:
    """The application of one server process, configured by what its parent handed over."""
    worker_dies_with_server()
    gateway = Service(take_over(os.environ)).gateway()
    _calm_collector()
    return gateway


def _calm_collector() -> None:
    """Look for cycles less often, and never among what was imported: requests make hardly any."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 50)


def _ids() -> Iterator[str]:
    """24 hexadecimal digits each; the system is asked for many at a time."""
    while True:
        digits = secrets.token_hex(12 * IDS_AT_ONCE)
        for start in range(0, len(digits), 24):
            yield digits[start : start + 24]


new_id = partial(next, _ids())
"""24 hexadecimal digits, unique in any fleet and not to be guessed."""


def _shared_figures(config: Config) -> Path | None:
    return run_directory(Path(config.server.data_dir)) if config.server.workers > 1 else None


def _chat_settings(config: Config, parts: Parts) -> ChatSettings:
    lives = Lives(
        exact=Seconds(config.exact.ttl if config.exact.enabled else 0),
        semantic=Seconds(config.semantic.ttl if parts.index is not None else 0),
    )
    ttls = zip((each.ttl for each in config.upstream), parts.upstreams, strict=True)
    return ChatSettings(
        max_body_bytes=config.server.max_body_bytes,
        max_temperature=config.semantic.max_temperature,
        by_meaning=config.semantic.conversations == "meaning",
        lives=lives,
        own_lives={
            upstream.name: msgspec.structs.replace(lives, exact=Seconds(ttl))
            for ttl, (_, upstream) in ttls
            if ttl and config.exact.enabled
        },
        debug=config.controls.debug,
    )


def _semantic_state(config: Config, parts: Parts | None) -> str:
    if not config.semantic.enabled:
        return "off"
    if parts is None:
        return "starting"
    return f"off: {parts.semantic_off}" if parts.semantic_off else "on"


async def _not_started(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise RequestError("AskOnce is starting", status=503, type="server_error", code="starting")

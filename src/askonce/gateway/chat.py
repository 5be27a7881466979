"""`POST /v1/chat/completions`: the cached route."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from askonce.cache.ask import Ask, Collapsed, Live
from askonce.canonical.answer import render_completion, render_stream
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import asking_usage, parse_chat, question_of
from askonce.errors import RequestError, UpstreamError
from askonce.flow import GiveUp, Hit, plan
from askonce.gateway.errors import error_body, error_of
from askonce.gateway.hangup import WhileConnected
from askonce.gateway.http import forwarded, header, read_body, returned, send_response, send_stream
from askonce.gateway.marks import marks_of_engine, marks_of_hit, marks_of_refusal
from askonce.gateway.meter import Meter
from askonce.gateway.passthrough import target_of
from askonce.ports import UpstreamRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from askonce.cache.ask import Look, Reply
    from askonce.cache.driver import Cache
    from askonce.canonical.answer import Answer
    from askonce.canonical.request import Call, Question
    from askonce.flow import Lives, Plan
    from askonce.gateway.envelope import Envelope
    from askonce.gateway.http import Receive, Send
    from askonce.gateway.http import Scope as HttpScope
    from askonce.gateway.marks import Pairs
    from askonce.gateway.routing import Upstreams
    from askonce.policy.controls import Controls
    from askonce.ports import Clock, Headers, Sink, Upstream, UpstreamResponse

PATH = "/v1/chat/completions"
_LONG = 512 * 1024
"""Bytes of a body that is parsed beside the event loop."""
_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_OURS = (b"age", b"content-length", b"x-askonce-score", b"x-cache")
"""Told by AskOnce, whatever stands behind it says."""
_OF_ONE_CALLER = (b"set-cookie", b"x-request-id")
"""Of an engine's answer to one caller, not for others who share it."""
_NOT_FORWARDED = (b"cache-control", b"content-length", b"accept-encoding", b"cookie")


class ChatSettings(NamedTuple):
    """What the route takes from the configuration."""

    max_body_bytes: int
    max_temperature: float
    by_meaning: bool
    """Earlier turns are compared by meaning as well."""
    lives: Lives
    own_lives: Mapping[str, Lives]
    """Of upstreams that have their own, by name."""
    debug: bool


class _Caller(NamedTuple):
    """One request as the route has read it."""

    http: HttpScope
    receive: Receive
    send: Send
    body: bytes
    call: Call
    meter: Meter


class ChatRoute:
    """Parses a chat request, lets the cache answer it, and renders the answer."""

    def __init__(
        self,
        cache: Cache,
        upstreams: Upstreams,
        read_envelope: Callable[[Headers], Envelope],
        settings: ChatSettings,
        *,
        clock: Clock,
        sink: Sink,
        new_id: Callable[[], str],
    ) -> None:
        """new_id: gives a fresh identifier, unique in the fleet."""
        self._cache = cache
        self._upstreams = upstreams
        self._read_envelope = read_envelope
        self._settings = settings
        self._clock = clock
        self._sink = sink
        self._new_id = new_id
        self._plan = lru_cache(maxsize=1024)(self._plan_of)

    async def __call__(self, http: HttpScope, receive: Receive, send: Send) -> None:
        """Serve one request; raises RequestError, UpstreamError, ClientGone."""
        body = await read_body(http, receive, self._settings.max_body_bytes)
        with Meter(self._clock, self._sink) as meter:
            call = await _parsed(body)
            meter.streamed = call.stream
            caller = _Caller(http, receive, send, body, call, meter)
            upstream = self._upstreams.for_model(call.model)
            envelope = self._read_envelope(http["headers"])
            scope = _scope(http, upstream, envelope)
            key = exact_key(scope, call)
            first = self._plan(envelope.controls, upstream.name, has_question=False)
            hit = self._cache.peek(key, first, envelope.author)
            looked = hit or await self._cache.look(key, first, envelope.author)
            if isinstance(looked, Hit):
                await self._send_hit(caller, looked)
                return
            ask = self._ask(caller, upstream, envelope, scope, looked, key=key)
            await self._answer(caller, ask)

    def _ask(
        self,
        caller: _Caller,
        upstream: Upstream,
        envelope: Envelope,
        scope: Scope,
        looked: Look | None,
        *,
        key: bytes,
    ) -> Ask:
        known = self._question_of(caller.call)
        return Ask(
            call=caller.call,
            question=known,
            scope=scope,
            key=key,
            plan=self._plan(envelope.controls, upstream.name, has_question=known is not None),
            send=lambda: _send_upstream(caller, upstream),
            request_id=caller.http["askonce.request_id"],
            author=envelope.author,
            looked=looked,
        )

    def _plan_of(self, controls: Controls, upstream: str, *, has_question: bool) -> Plan:
        lives = self._settings.own_lives.get(upstream, self._settings.lives)
        return plan(controls, lives, has_question=has_question)

    def _question_of(self, call: Call) -> Question | None:
        if not self._settings.lives.semantic:
            return None
        settings = self._settings
        question = question_of(
            call, max_temperature=settings.max_temperature, by_meaning=settings.by_meaning
        )
        return None if isinstance(question, str) else question

    async def _answer(self, caller: _Caller, ask: Ask) -> None:
        """A caller who hangs up ends this, not the call: what may be stored is computed on."""
        async with WhileConnected(caller.receive) as guard:
            guard.watch()
            async with self._cache.answering(ask) as reply:
                await self._deliver(caller, ask, reply)

    async def _deliver(self, caller: _Caller, ask: Ask, reply: Reply) -> None:
        match reply:
            case Hit():
                await self._send_hit(caller, reply)
            case Live():
                await self._send_live(caller, ask, reply)
            case Collapsed():
                caller.meter.tier = "collapsed"
                caller.meter.saved(reply.answer)
                await self._render(caller, reply.answer, self._marks(ask, reply))
            case GiveUp():
                await _send_refusal(caller, reply)

    def _marks(self, ask: Ask, reply: Live | Collapsed) -> Pairs:
        return marks_of_engine(reply, key=ask.key, debug=self._settings.debug)

    async def _send_hit(self, caller: _Caller, hit: Hit) -> None:
        caller.meter.tier = hit.tier
        caller.meter.saved(hit.entry.answer)
        await self._render(caller, hit.entry.answer, marks_of_hit(hit, debug=self._settings.debug))

    async def _render(self, caller: _Caller, answer: Answer, marks: Pairs) -> None:
        """An answer from memory, with an id and a time of its own."""
        answer_id = answer.id_prefix + self._new_id()
        created = int(self._clock.now())
        if caller.call.stream:
            usage = caller.call.wants_usage
            body = render_stream(answer, answer_id=answer_id, created=created, usage=usage)
            kind = _EVENTS
        else:
            body = render_completion(answer, answer_id=answer_id, created=created)
            kind = _JSON
        length = (b"content-length", b"%d" % len(body))
        caller.meter.began()
        await send_response(caller.send, 200, [kind, length, *marks], body)

    async def _send_live(self, caller: _Caller, ask: Ask, reply: Live) -> None:
        head, meter = reply.head, caller.meter
        meter.tier = "collapsed" if reply.collapsed else "engine"
        meter.status = head.status
        without = (*_OURS, *(_OF_ONE_CALLER if reply.collapsed else ()))
        headers = [*returned(head.headers, without=without), *self._marks(ask, reply)]
        if not head.streamed:
            headers.append((b"content-length", b"%d" % len(head.body)))
            meter.began()
            await send_response(caller.send, head.status, headers, head.body)
        else:
            usage = _shows_usage(self._upstreams, caller.call)
            pieces = _pieces(caller, reply, usage=usage)
            await send_stream(caller.send, head.status, headers, pieces)
        if reply.collapsed and reply.flight.answer is not None:
            meter.saved(reply.flight.answer)


async def _parsed(body: bytes) -> Call:
    """Parsing blocks for a millisecond or so a megabyte; a long body is no reason to wait."""
    return parse_chat(body) if len(body) < _LONG else await asyncio.to_thread(parse_chat, body)


async def _pieces(caller: _Caller, reply: Live, *, usage: bool) -> AsyncIterator[bytes]:
    """The live answer; events that break off end with an error event and without `[DONE]`.

    Raises UpstreamError where the body is not made of events: the connection must break as well.
    """
    try:
        async for piece in reply.flight.pieces(usage=usage):
            caller.meter.began()
            yield piece
    except UpstreamError as broken:
        if not header(reply.head.headers, b"content-type").startswith(b"text/event-stream"):
            raise
        caller.meter.status = broken.status
        yield b"data: " + error_body(error_of(broken), caller.http) + b"\n\n"


async def _send_refusal(caller: _Caller, outcome: GiveUp) -> None:
    """RFC 9111 section 5.2.1.7: nothing cached, and nothing else wanted."""
    caller.meter.status = 504
    error = RequestError("no cached answer, and only-if-cached was asked", code="not_cached")
    body = error_body(error, caller.http)
    length = (b"content-length", b"%d" % len(body))
    await send_response(caller.send, 504, [_JSON, length, *marks_of_refusal(outcome)], body)


async def _send_upstream(caller: _Caller, upstream: Upstream) -> UpstreamResponse:
    call = caller.call
    adds_usage = call.stream and upstream.ask_usage and not call.wants_usage
    body = asking_usage(call) if adds_usage else caller.body
    headers = forwarded(caller.http["headers"], without=_NOT_FORWARDED)
    headers += [(b"accept-encoding", b"identity"), (b"content-length", b"%d" % len(body))]
    return await upstream.send(UpstreamRequest("POST", target_of(caller.http), headers, body))


def _scope(http: HttpScope, upstream: Upstream, envelope: Envelope) -> Scope:
    return Scope(
        endpoint=f"{PATH}?{http['query_string'].decode('latin-1')}",
        upstream=upstream.name,
        revision=upstream.revision,
        tenant=envelope.partition,
        namespace=envelope.controls.namespace,
    )


def _shows_usage(upstreams: Upstreams, call: Call) -> bool:
    """Whether the caller sees a usage event: not one that only AskOnce asked for."""
    return call.wants_usage or not upstreams.for_model(call.model).ask_usage

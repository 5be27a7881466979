"""An upstream without sockets, and what every upstream must do."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Protocol

from askonce.errors import UpstreamBroken, UpstreamError, UpstreamTimeout, UpstreamUnreachable
from askonce.ports import UpstreamRequest
from askonce.testing.answers import Asked, Reply, default_reply

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from askonce.ports import Headers, Upstream
    from askonce.testing.answers import Script


class ScriptedUpstream:
    """Answers scripts in order, then by `otherwise`, in no time.

    A hanging answer has already timed out unless `patient`; then it hangs until cancelled.
    """

    def __init__(
        self,
        *scripts: Script,
        otherwise: Script = default_reply,
        name: str = "scripted",
        revision: str = "",
        ask_usage: bool = True,
        patient: bool = False,
    ) -> None:
        self.name = name
        self.revision = revision
        self.ask_usage = ask_usage
        self.asked: list[Asked] = []
        self.open = asyncio.Event()
        """Clear it to hold every answer before its headers."""
        self.open.set()
        self.dropped = 0
        """How many answers were closed before their end."""
        self.live = 0
        """How many answers are begun and not closed."""
        self.otherwise = otherwise
        self._scripts = deque(scripts)
        self._patient = patient
        self.credit: asyncio.Semaphore | None = None
        """What `meter` and `let` count."""
        self._arrived = asyncio.Condition()
        self.closed = False

    def script(self, *scripts: Script) -> None:
        """Append answers for the next requests."""
        self._scripts.extend(scripts)

    def meter(self) -> None:
        """From now on a piece of a body (and its end) goes out only when `let` allows it."""
        self.credit = asyncio.Semaphore(0)

    def let(self, pieces: int) -> None:
        """Allow so many more pieces, over all answers."""
        for _ in range(pieces):
            if self.credit is not None:
                self.credit.release()

    async def asked_times(self, times: int) -> None:
        """Wait until so many requests have come."""
        async with self._arrived:
            await self._arrived.wait_for(lambda: len(self.asked) >= times)

    async def send(self, request: UpstreamRequest) -> _ScriptedResponse:
        """Take the request in, then answer as scripted."""
        if self.closed:
            raise UpstreamUnreachable(f"upstream {self.name} is closed")
        script = self._scripts.popleft() if self._scripts else self.otherwise
        fault = script.fault if isinstance(script, Reply) else None
        if fault == "refuse":
            raise UpstreamUnreachable(f"upstream {self.name} cannot be reached")
        if fault == "hang_reading":
            await self.hang(UpstreamTimeout)
        asked = Asked(request.method, request.path, request.headers, await _whole(request.body))
        async with self._arrived:
            self.asked.append(asked)
            self._arrived.notify_all()
        await self.open.wait()
        reply = script if isinstance(script, Reply) else script(asked)
        if reply.fault == "break_before":
            raise UpstreamUnreachable(f"upstream {self.name} cannot be reached")
        if reply.fault == "hang_before":
            await self.hang(UpstreamTimeout)
        bodiless = request.method == "HEAD" or reply.status in {204, 304}
        return _ScriptedResponse(self, reply, () if bodiless else reply.pieces)

    async def close(self) -> None:
        """Refuse everything from now on."""
        self.closed = True

    async def hang(self, error: type[UpstreamError]) -> None:
        """Hang, or have hung: raise the error that a timeout would raise."""
        if self._patient:
            await asyncio.Event().wait()
        raise error(f"upstream {self.name} took too long")


class _ScriptedResponse:
    def __init__(self, upstream: ScriptedUpstream, reply: Reply, pieces: Sequence[bytes]) -> None:
        self.status = reply.status
        length = (b"content-length", b"%d" % len(reply.body))
        sized = reply.framing == "length" and reply.status != 204
        self.headers: Headers = [*reply.headers, length] if sized else list(reply.headers)
        self._upstream = upstream
        self._reply = reply
        self._pieces = pieces
        self._whole = False
        self.closed = False
        upstream.live += 1

    async def chunks(self) -> AsyncIterator[bytes]:
        reply = self._reply
        for i, piece in enumerate(self._pieces):
            if reply.fault and i == reply.at:
                await self._fail()
            await self._pay()
            yield piece
        if reply.fault or _is_short(reply):
            await self._fail()
        await self._pay()
        self._whole = True

    async def read(self) -> bytes:
        return b"".join([piece async for piece in self.chunks()])

    async def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._upstream.live -= 1
        if not self._whole:
            self._upstream.dropped += 1

    async def _pay(self) -> None:
        credit = self._upstream.credit
        if self.closed:
            raise UpstreamBroken("the answer was closed")
        if credit is not None:
            await credit.acquire()

    async def _fail(self) -> None:
        if self._reply.fault == "hang_inside":
            await self._upstream.hang(UpstreamBroken)
        raise UpstreamBroken(f"the answer of {self._upstream.name} broke off")


def _is_short(reply: Reply) -> bool:
    declared = next((int(v) for n, v in reply.headers if n == b"content-length"), 0)
    return len(reply.body) < declared


async def _whole(body: bytes | AsyncIterator[bytes]) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join([piece async for piece in body])


class MakeUpstream(Protocol):
    """Makes an upstream that answers these scripts in turn, with timeouts of a moment."""

    def __call__(
        self, *scripts: Script
    ) -> AbstractAsyncContextManager[tuple[Upstream, list[Asked]]]:
        """Yields it and the list of what its engine was asked."""
        ...


async def check_upstream(make: MakeUpstream) -> None:
    """Everything that the port promises; raises AssertionError."""
    for check in _CHECKS:
        await check(make)


_GET = UpstreamRequest("GET", "/v1/x", [(b"accept", b"*/*")], b"")
_STREAM = Reply(pieces=(b"one", b"two", b"three"), framing="chunked")


def _expect(condition: bool, promise: str) -> None:  # noqa: FBT001 - reads like assert
    if not condition:
        raise AssertionError(promise)


async def _raises(error: type[UpstreamError], work: Callable[[], Awaitable[object]]) -> None:
    try:
        await work()
    except error:
        return
    raise AssertionError(f"{error.__name__} expected")


async def _passes_the_request_on(make: MakeUpstream) -> None:
    request = UpstreamRequest(
        "PATCH",
        "/v1/a%2Fb;c/%20?q=%2B&r=a+b",
        [(b"content-type", b"a/b"), (b"x-two", b"1"), (b"x-two", b"2")],
        b"\x00\xffbody",
    )
    async with make(_STREAM) as (upstream, asked):
        response = await upstream.send(request)
        await response.read()
        await response.close()
        got = asked[0]
        _expect(got.method == "PATCH", "the method goes on")
        _expect(got.path == request.path, "raw path and query go on byte for byte")
        _expect(got.body == b"\x00\xffbody", "the body goes on")
        _expect([v for n, v in got.headers if n == b"x-two"] == [b"1", b"2"], "headers go on")


async def _passes_the_answer_back(make: MakeUpstream) -> None:
    headers = ((b"content-encoding", b"gzip"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"))
    body = b"not gzip at all, and nobody unpacks it"
    async with make(Reply(status=418, headers=headers, pieces=(body,))) as (upstream, _):
        response = await upstream.send(_GET)
        _expect(response.status == 418, "an error status is an answer")
        kept = [pair for pair in response.headers if pair in headers]
        _expect(kept == list(headers), "headers come back in order, names in lower case")
        _expect(await response.read() == body, "the body comes back as it is")
        await response.close()


async def _streams_both_ways(make: MakeUpstream) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"a" * 70_000, b"b", b"c" * 200_000):
            yield piece

    async with make(_STREAM) as (upstream, asked):
        response = await upstream.send(UpstreamRequest("POST", "/v1/up", [], pieces()))
        got = [piece async for piece in response.chunks()]
        await response.close()
        _expect(b"".join(got) == b"onetwothree", "pieces come back in order")
        _expect(b"" not in got, "no piece is empty")
        _expect(len(asked[0].body) == 270_001, "a streamed request body arrives whole")


async def _sends_large_bodies(make: MakeUpstream) -> None:
    body = bytes(range(256)) * 8192
    async with make(_STREAM) as (upstream, asked):
        response = await upstream.send(UpstreamRequest("POST", "/v1/up", [], body))
        await response.close()
        _expect(asked[0].body == body, "a large body arrives whole")


async def _follows_no_redirect(make: MakeUpstream) -> None:
    moved = Reply(status=307, headers=((b"location", b"/v1/elsewhere"),))
    async with make(moved) as (upstream, asked):
        response = await upstream.send(_GET)
        await response.close()
        _expect(response.status == 307, "a redirect is an answer")
        _expect(len(asked) == 1, "a redirect is not followed")


async def _has_empty_bodies(make: MakeUpstream) -> None:
    async with make(Reply(status=204), Reply(pieces=(b"unsent",))) as (upstream, _):
        response = await upstream.send(_GET)
        _expect(await response.read() == b"", "204 has no body")
        await response.close()
        response = await upstream.send(UpstreamRequest("HEAD", "/v1/x", [], b""))
        _expect([piece async for piece in response.chunks()] == [], "HEAD has no body")
        await response.close()


async def _tells_what_went_wrong(make: MakeUpstream) -> None:
    big = UpstreamRequest("POST", "/v1/up", [], b"x" * 32_000_000)
    expected: list[tuple[Reply, UpstreamRequest, type[UpstreamError]]] = [
        (Reply(fault="refuse"), _GET, UpstreamUnreachable),
        (Reply(fault="break_before"), _GET, UpstreamUnreachable),
        (Reply(fault="hang_before"), _GET, UpstreamTimeout),
        (Reply(fault="hang_reading"), big, UpstreamTimeout),
    ]
    for reply, request, error in expected:
        async with make(reply, _STREAM) as (upstream, _):
            await _raises(error, lambda u=upstream, r=request: u.send(r))  # type: ignore[misc]
            response = await upstream.send(_GET)
            _expect(await response.read() == b"onetwothree", "a failure harms no later request")
            await response.close()


async def _tells_when_a_body_breaks(make: MakeUpstream) -> None:
    length = (b"content-length", b"100")
    broken = [
        Reply(pieces=(b"one", b"two"), framing="chunked", fault="break_inside"),
        Reply(pieces=(b"one", b"two"), framing="chunked", fault="hang_inside"),
        Reply(pieces=(b"one",), headers=(length,), framing="close"),
    ]
    for reply in broken:
        async with make(reply, reply) as (upstream, _):
            response = await upstream.send(_GET)
            got: list[bytes] = []
            with suppress(UpstreamBroken):
                async for piece in response.chunks():
                    got.append(piece)  # noqa: PERF401 - what came before the break counts
                got.append(b"an end")
            await response.close()
            _expect(got == [b"one"], "pieces before the break come, then UpstreamBroken")
            response = await upstream.send(_GET)
            await _raises(UpstreamBroken, response.read)
            await response.close()


async def _closes_at_any_time(make: MakeUpstream) -> None:
    async with make(_STREAM, _STREAM, _STREAM) as (upstream, _):
        unread = await upstream.send(_GET)
        await unread.close()
        await unread.close()
        half = await upstream.send(_GET)
        await anext(half.chunks())
        await half.close()
        response = await upstream.send(_GET)
        _expect(await response.read() == b"onetwothree", "closing early harms no later request")
        await response.close()
        await response.close()


async def _survives_cancelling(make: MakeUpstream) -> None:
    async with make(Reply(fault="hang_before", delay=0.0), _STREAM) as (upstream, _):
        task = asyncio.ensure_future(upstream.send(_GET))
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError, UpstreamTimeout):
            await task
        async with make(_STREAM) as (other, _):
            response = await other.send(_GET)
            await response.close()


async def _refuses_after_close(make: MakeUpstream) -> None:
    async with make() as (upstream, _):
        await upstream.close()
        await upstream.close()
        await _raises(UpstreamUnreachable, lambda: upstream.send(_GET))


_CHECKS = (
    _passes_the_request_on,
    _passes_the_answer_back,
    _streams_both_ways,
    _sends_large_bodies,
    _follows_no_redirect,
    _has_empty_bodies,
    _tells_what_went_wrong,
    _tells_when_a_body_breaks,
    _closes_at_any_time,
    _survives_cancelling,
    _refuses_after_close,
)

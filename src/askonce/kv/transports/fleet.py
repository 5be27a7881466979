"""The servers that share the blocks between them, and calls that reach all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

import xxhash

from askonce.clock import SystemClock
from askonce.kv.ports import FAULTS, Buffer, Outcome, Outcomes
from askonce.kv.transports.endpoint import UNBOUNDED, Endpoint, ReadAll
from askonce.kv.transports.exchange import Exchange, Window, drive
from askonce.kv.transports.inbox import Garbage, Inbox, Reading, Redirect, read_line

if TYPE_CHECKING:
    from askonce.units import Seconds

_LANE = 1024 * 1024
"""Bytes from which a call is split over connections to one server."""
_REDIRECTS = 3
_AHEAD = 8 * 1024 * 1024
"""Bytes of answers that a server may have to hold ready for one connection."""
_clock = SystemClock()


class Talk(NamedTuple):
    """How one call is spoken; both take the index of a key in the call."""

    out: Callable[[int], Sequence[Buffer]]
    reading: Callable[[Inbox, int], Reading[Outcome]]
    size: int = 0
    """Bytes that move with one key."""
    answers: bool = False
    """Whether they come with the answer; then a question is one buffer."""


class Routes(Protocol):
    """Says which server a key lives on."""

    @property
    def endpoints(self) -> Sequence[Endpoint]:
        """All servers that are known."""
        ...

    def prepare(self, deadline: Seconds) -> None:
        """Learn what is needed before a call; blocks no longer than the deadline."""
        ...

    def route(self, key: bytes) -> Endpoint:
        """Of this key."""
        ...

    def redirected(self, redirect: Redirect) -> Endpoint | None:
        """The server that another one named; None for one that is not to be believed."""
        ...


class Rendezvous:
    """Each key on the server that scores highest for it: a lost server moves only its own keys."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        """endpoints: one at least."""
        self.endpoints = tuple(endpoints)

    def route(self, key: bytes) -> Endpoint:
        """Of this key."""
        if len(self.endpoints) == 1:
            return self.endpoints[0]
        return max(self.endpoints, key=lambda each: xxhash.xxh3_64_intdigest(key, each.seed))

    def prepare(self, deadline: Seconds) -> None:
        """Nothing is to be learnt."""

    def redirected(self, redirect: Redirect) -> Endpoint | None:
        """Servers outside a cluster name no others that could be believed."""
        del redirect
        return None


ReadText = Callable[[Inbox], Reading[bytes | None]]


class _Part(NamedTuple):
    endpoint: Endpoint
    indices: Sequence[int]
    exchange: Exchange


class Fleet:
    """Calls over all servers at once, driven by the caller's thread."""

    def __init__(self, routes: Routes, *, lanes: int = 1) -> None:
        """lanes: connections that one large call may use at each server."""
        self.routes = routes
        self._lanes = lanes
        self._closed = False

    def call(self, keys: Sequence[bytes], talk: Talk, deadline: Seconds) -> Outcomes:
        """Speak of all keys in one round trip; one more for those that another server has."""
        if self._closed:
            return ["down"] * len(keys)
        self.routes.prepare(deadline)
        redirects: dict[int, Redirect] = {}
        asked = _grouped((self.routes.route(key), index) for index, key in enumerate(keys))
        outcomes = self._ask(asked, len(keys), (talk, redirects), deadline)
        for _ in range(_REDIRECTS):
            if not redirects:
                break
            followed, redirects = redirects, {}
            self._follow(followed, outcomes, (talk, redirects), deadline)
        return outcomes

    def _follow(
        self,
        followed: dict[int, Redirect],
        outcomes: Outcomes,
        spoken: tuple[Talk, dict[int, Redirect]],
        deadline: Seconds,
    ) -> None:
        """Ask the servers that were named."""
        talk, redirects = spoken
        for asking in (False, True):
            named = [
                (self.routes.redirected(redirect), index)
                for index, redirect in followed.items()
                if redirect.asking is asking
            ]
            asked = _grouped((place, index) for place, index in named if place is not None)
            if asked:
                how = _asking(talk) if asking else talk
                told = self._ask(asked, len(outcomes), (how, redirects), deadline)
                for _, indices in asked:
                    for index in indices:
                        outcomes[index] = told[index]

    def _ask(
        self,
        asked: Sequence[tuple[Endpoint, Sequence[int]]],
        count: int,
        spoken: tuple[Talk, dict[int, Redirect]],
        deadline: Seconds,
    ) -> Outcomes:
        """Speak to each server of the keys with these indices; the others stay `missing`."""
        began = _clock.monotonic()
        if began >= deadline:
            return ["late"] * count
        outcomes: list[Outcome] = ["missing"] * count
        parts: list[_Part] = []
        try:
            for endpoint, indices in asked:
                if not endpoint.allows():
                    _set(outcomes, indices, "open")
                    continue
                for mine in self._lanes_of(indices, spoken[0].size):
                    parts += _part(endpoint, mine, spoken, outcomes, deadline)
            drive([part.exchange for part in parts], deadline)
        except BaseException:
            for endpoint, _ in asked:
                endpoint.tell(works=None, began=began)
            raise
        finally:
            for part in parts:
                part.exchange.stop()
                part.endpoint.end(part.exchange)
        for part in parts:
            unread = [index for index in part.indices if outcomes[index] == "down"]
            _set(outcomes, unread, part.exchange.fault or "broken")
        for endpoint, indices in asked:
            well = any(index in spoken[1] for index in indices)
            _judge(endpoint, [outcomes[index] for index in indices], began, redirects=well)
        return outcomes

    def _lanes_of(self, indices: Sequence[int], size: int) -> list[Sequence[int]]:
        lanes = min(self._lanes, len(indices), 1 + size * len(indices) // _LANE)
        return [indices[lane::lanes] for lane in range(lanes)]

    def ask_all(self, out: bytes, reading: ReadText, deadline: Seconds) -> dict[str, bytes | None]:
        """Ask each server the same; None for one that does not answer."""
        self.routes.prepare(deadline)
        endpoints = self.routes.endpoints
        told = _ask_each(endpoints, out, reading, deadline)
        return {str(each.place): text for each, text in zip(endpoints, told, strict=True)}

    def ask_about(
        self, key: bytes, out: bytes, reading: ReadText, deadline: Seconds
    ) -> bytes | None:
        """Ask the server of one key; None where it does not answer."""
        self.routes.prepare(deadline)
        return _ask_each([self.routes.route(key)], out, reading, deadline)[0]

    def close(self) -> None:
        """Hang up everywhere."""
        self._closed = True
        for endpoint in self.routes.endpoints:
            endpoint.close()


def _ask_each(
    endpoints: Sequence[Endpoint], out: bytes, reading: ReadText, deadline: Seconds
) -> list[bytes | None]:
    """Side by side, so that one which is slow takes no time from the others."""
    told: list[bytes | None] = [None] * len(endpoints)

    def into(index: int) -> ReadAll:
        def read(inbox: Inbox) -> Reading[None]:
            told[index] = yield from reading(inbox)

        return read

    begun: list[tuple[Endpoint, Exchange]] = []
    try:
        for index, endpoint in enumerate(endpoints):
            with suppress(OSError):
                begun.append((endpoint, endpoint.begin([out], into(index), deadline)))
        drive([exchange for _, exchange in begun], deadline)
    finally:
        for endpoint, exchange in begun:
            exchange.stop()
            endpoint.end(exchange)
    return told


def _grouped(placed: Iterable[tuple[Endpoint, int]]) -> list[tuple[Endpoint, list[int]]]:
    groups: dict[Endpoint, list[int]] = {}
    for endpoint, index in placed:
        groups.setdefault(endpoint, []).append(index)
    return list(groups.items())


def _asking(talk: Talk) -> Talk:
    """The same for keys that are on their way from one server of a cluster to another."""

    def read(inbox: Inbox, index: int) -> Reading[Outcome]:
        if (yield from read_line(inbox)) != b"+OK":
            raise Garbage("no answer to ASKING")
        return (yield from talk.reading(inbox, index))

    def out(index: int) -> Sequence[Buffer]:
        first, *others = talk.out(index)
        return (b"*1\r\n$6\r\nASKING\r\n" + bytes(first), *others)

    return Talk(out, read, talk.size, talk.answers)


def _part(
    endpoint: Endpoint,
    indices: Sequence[int],
    spoken: tuple[Talk, dict[int, Redirect]],
    outcomes: Outcomes,
    deadline: Seconds,
) -> list[_Part]:
    """The exchange for these keys; none where no connection can be begun."""
    _set(outcomes, indices, "down")
    talk = spoken[0]
    out: list[Buffer] = [piece for index in indices for piece in talk.out(index)]
    window = Window(max(_AHEAD // (talk.size or 1), 2) if talk.answers else UNBOUNDED)
    reading = _reading_all(indices, spoken, outcomes, window)
    try:
        exchange = endpoint.begin(out, reading, deadline, window)
    except TimeoutError:
        _set(outcomes, indices, "late")
    except OSError:
        pass
    else:
        return [_Part(endpoint, indices, exchange)]
    return []


def _reading_all(
    indices: Sequence[int],
    spoken: tuple[Talk, dict[int, Redirect]],
    outcomes: Outcomes,
    window: Window,
) -> ReadAll:
    talk, redirects = spoken

    def read(inbox: Inbox) -> Reading[None]:
        for index in indices:
            try:
                outcomes[index] = yield from talk.reading(inbox, index)
            except Redirect as redirect:
                outcomes[index] = "refused"
                redirects[index] = redirect
            window.free += 1

    return read


def _set(outcomes: Outcomes, indices: Sequence[int], outcome: Outcome) -> None:
    for index in indices:
        outcomes[index] = outcome


def _judge(endpoint: Endpoint, outcomes: Outcomes, began: Seconds, *, redirects: bool) -> None:
    """Tell the breaker: a server works that said anything of use."""
    if all(outcome == "open" for outcome in outcomes):
        return  # it was not asked
    works = redirects or any(outcome not in FAULTS for outcome in outcomes)
    endpoint.tell(works=works, began=began)

"""Redis and Valkey: one string a block, commands pipelined in RESP2, which all of them speak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.kv.transports.endpoint import Greeting
from askonce.kv.transports.fleet import Fleet, Talk
from askonce.kv.transports.inbox import (
    Garbage,
    Inbox,
    Reading,
    Redirect,
    read_end,
    read_into,
    read_line,
    read_number,
    read_past,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.kv.ports import Arrived, Buffer, Outcome, Outcomes
    from askonce.kv.transports.fleet import Routes
    from askonce.units import Seconds

_NO_ROOM = (b"OOM", b"MAXMEMORY")
_LONGEST_TEXT = 1024 * 1024
_FOREIGN = b"WRONGTYPE"


class RespTransport:
    """A `BlockTransport` over one server, or over several that share the keys."""

    def __init__(self, routes: Routes, *, lanes: int = 1) -> None:
        """Connect to nothing yet; lanes: connections that one large call may use at a server."""
        self._fleet = Fleet(routes, lanes=lanes)

    def exists(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """Pipelined, so that a server of a cluster answers for its own keys."""
        talk = Talk(lambda index: (command(b"EXISTS", keys[index]),), _read_count)
        return self._fleet.call(keys, talk, deadline)

    def fetch(
        self,
        keys: Sequence[bytes],
        headers: Sequence[memoryview],
        payloads: Sequence[memoryview],
        *,
        deadline: Seconds,
        arrived: Arrived | None = None,
    ) -> Outcomes:
        """One GET a key."""

        def read(inbox: Inbox, index: int) -> Reading[Outcome]:
            told = yield from read_value(inbox, (headers[index], payloads[index]))
            if arrived is not None and told == "done":
                arrived(index)
            return told

        talk = Talk(
            lambda index: (command(b"GET", keys[index]),), read, _size(payloads), answers=True
        )
        return self._fleet.call(keys, talk, deadline)

    def put(
        self,
        keys: Sequence[bytes],
        headers: Sequence[Buffer],
        payloads: Sequence[Buffer],
        *,
        ttl: Seconds | None,
        deadline: Seconds,
        replace: bool = False,
    ) -> Outcomes:
        """One SET a key, its value sent from where it lies."""
        how = () if replace else (b"NX",)
        life = () if ttl is None else (b"PX", b"%d" % max(round(ttl * 1000), 1))
        tail = b"\r\n" + b"".join(_bulk(word) for word in (*how, *life))
        words = 3 + len(how) + len(life)

        def out(index: int) -> Sequence[Buffer]:
            header, payload = headers[index], payloads[index]
            size = len(header) + memoryview(payload).nbytes
            head = b"*%d\r\n$3\r\nSET\r\n%b$%d\r\n" % (words, _bulk(keys[index]), size)
            return head, header, payload, tail

        return self._fleet.call(keys, Talk(out, _read_stored, _size(payloads)), deadline)

    def delete(self, keys: Sequence[bytes], *, deadline: Seconds) -> Outcomes:
        """UNLINK: the server frees the bytes on a thread of its own."""
        talk = Talk(lambda index: (command(b"UNLINK", keys[index]),), _read_count)
        return self._fleet.call(keys, talk, deadline)

    def renew(
        self, keys: Sequence[bytes], lives: Sequence[Seconds], *, deadline: Seconds
    ) -> Outcomes:
        """PEXPIRE GT, which servers before Redis 7 refuse."""

        def out(index: int) -> Sequence[Buffer]:
            life = b"%d" % max(round(lives[index] * 1000), 1)
            return (command(b"PEXPIRE", keys[index], life, b"GT"),)

        return self._fleet.call(keys, Talk(out, _read_count), deadline)

    def servers(self, *, deadline: Seconds) -> dict[str, dict[str, str] | None]:
        """INFO of each."""
        told = self._fleet.ask_all(command(b"INFO"), _read_text, deadline)
        return {place: None if text is None else _fields(text) for place, text in told.items()}

    def peek(self, key: bytes, size: int, *, deadline: Seconds) -> bytes | None:
        """GETRANGE."""
        out = command(b"GETRANGE", key, b"0", b"%d" % (size - 1))
        return self._fleet.ask_about(key, out, _read_text, deadline) or None

    def close(self) -> None:
        """Hang up everywhere."""
        self._fleet.close()


def greeting(*, username: str = "", password: str = "", database: int = 0) -> Greeting | None:
    """AUTH and SELECT, sent ahead of the first commands without a round trip of their own."""
    words: list[tuple[bytes, ...]] = []
    if password:
        who = (username.encode(),) if username else ()
        words.append((b"AUTH", *who, password.encode()))
    if database:
        words.append((b"SELECT", b"%d" % database))
    if not words:
        return None
    return Greeting(
        b"".join(command(*each) for each in words), lambda inbox: _welcomed(inbox, len(words))
    )


def command(*words: bytes) -> bytes:
    """A command as it goes over the wire."""
    return b"*%d\r\n" % len(words) + b"".join(_bulk(word) for word in words)


def _bulk(word: bytes) -> bytes:
    return b"$%d\r\n%b\r\n" % (len(word), word)


def _size(payloads: Sequence[Buffer]) -> int:
    return memoryview(payloads[0]).nbytes if payloads else 0


def _welcomed(inbox: Inbox, count: int) -> Reading[None]:
    for _ in range(count):
        if (yield from read_line(inbox)) != b"+OK":
            raise PermissionError("the server refuses the password or the database")


def _read_count(inbox: Inbox, _: int) -> Reading[Outcome]:
    line = yield from read_line(inbox)
    match line[:1]:
        case b":":
            return "done" if read_number(line[1:]) else "missing"
        case b"-":
            return refusal(line)
        case _:
            raise Garbage("no count")


def _read_stored(inbox: Inbox, _: int) -> Reading[Outcome]:
    line = yield from read_line(inbox)
    if line == b"+OK":
        return "done"
    if line in {b"$-1", b"_"}:
        return "present"
    if line[:1] == b"-":
        return refusal(line)
    raise Garbage("no answer to SET")


def read_value(inbox: Inbox, views: Sequence[memoryview]) -> Reading[Outcome]:
    """A bulk string into the views, which it must fill exactly."""
    line = yield from read_line(inbox)
    if line in {b"$-1", b"_"}:
        return "missing"
    if line[:1] == b"-":
        return refusal(line)
    if line[:1] != b"$":
        raise Garbage("no value")
    size = read_number(line[1:])
    if size != sum(view.nbytes for view in views):
        yield from read_past(inbox, size)
        return "size"
    yield from read_into(inbox, views)
    yield from read_end(inbox)
    return "done"


def refusal(line: bytes) -> Outcome:
    """What an error means for its key; raises Redirect."""
    said, _, rest = line[1:].partition(b" ")
    if said in {b"MOVED", b"ASK"}:
        raise _redirect(rest, asking=said == b"ASK")
    if said in _NO_ROOM:
        return "full"
    return "size" if said == _FOREIGN else "refused"


def _redirect(rest: bytes, *, asking: bool) -> Redirect:
    """From `3999 127.0.0.1:6381`."""
    host, _, port = rest.rpartition(b" ")[2].rpartition(b":")
    return Redirect(host.decode("ascii", "replace"), read_number(port), asking=asking)


def _read_text(inbox: Inbox) -> Reading[bytes | None]:
    line = yield from read_line(inbox)
    if line[:1] != b"$" or not 0 <= (size := read_number(line[1:])) <= _LONGEST_TEXT:
        return None
    text = bytearray(size)
    yield from read_into(inbox, [memoryview(text)])
    yield from read_end(inbox)
    return bytes(text)


def _fields(text: bytes) -> dict[str, str]:
    """From lines of `name:value`."""
    lines = (line.partition(":") for line in text.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}

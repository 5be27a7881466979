"""Which transport a URL means."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from askonce.errors import ConfigError
from askonce.kv.transports.wire import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from askonce.kv.ports import BlockTransport

DEFAULT_PORTS = {"redis": 6379, "memcached": 11211}
SCHEMES = (
    "redis",
    "rediss",
    "redis+unix",
    "redis+cluster",
    "rediss+cluster",
    "memcached",
    "memcacheds",
    "memcached+unix",
    "memory",
)
"""An `s` means TLS; `valkey` may stand for `redis` everywhere."""


_LEAST_ITEM = 1024
_SECURE = {"rediss": "redis", "memcacheds": "memcached"}


class Target(NamedTuple):
    """What a URL says."""

    scheme: str
    places: tuple[Place, ...]
    username: str
    password: str
    database: int
    options: Mapping[str, str]

    @property
    def family(self) -> str:
        """The scheme without its ways to connect."""
        return _family(self.scheme)

    @property
    def lanes(self) -> int:
        """Connections that one large call may use at a server."""
        return _positive(self.options, "lanes", 1)


def open_transport(url: str) -> BlockTransport:
    """The transport for this URL; raises ConfigError, and connects to nothing yet.

    `rediss://user:password@host:6379,other:6380/0?lanes=2&ca=/etc/ca.pem`
    """
    target = parse(url)
    return _OPENERS[target.family](target)


def parse(url: str) -> Target:
    """Take a URL apart; raises ConfigError."""
    scheme, colon, rest = url.partition("://")
    scheme = scheme.replace("valkey", "redis", 1)
    if scheme not in SCHEMES or not colon:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise ConfigError(f"no KV store is known by {scheme!r}; known are: {known}")
    try:
        parts = urlsplit(f"kv://{rest}")
    except ValueError as reason:
        raise ConfigError(f"the URL of the KV store cannot be read: {reason}") from None
    who, _, hosts = parts.netloc.rpartition("@")
    username, _, password = who.partition(":")
    options = _options(scheme, parts.query)
    if scheme.endswith("+unix"):
        if hosts or not parts.path:
            raise ConfigError("a socket file is named by its whole path, after three slashes")
        places = [Place("", 0, unquote(parts.path))]
        path = options.get("db", "")
    else:
        port = DEFAULT_PORTS.get(_family(scheme), 0)
        if "," in hosts and not all(hosts.split(",")):
            raise ConfigError("the list of the KV store's servers has a gap")
        places = [_place(each, port) for each in hosts.split(",")]
        path = parts.path[1:]
    if path and not path.isdecimal():
        raise ConfigError(f"a database is a number, not {path!r}")
    return Target(
        scheme, tuple(places), unquote(username), unquote(password), int(path or 0), options
    )


def _options(scheme: str, query: str) -> Mapping[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    known = {"lanes"}
    if _family(scheme) == "memcached":
        known.add("item")
    elif scheme.endswith("+unix"):
        known.add("db")
    if scheme.partition("+")[0] in _SECURE:
        known |= {"ca", "cert", "key"}
    if unknown := sorted(options.keys() - known):
        told = ", ".join(sorted(known))
        raise ConfigError(f"{scheme}:// has no option {unknown[0]!r}; known are: {told}")
    return options


def _family(scheme: str) -> str:
    base = scheme.partition("+")[0]
    return _SECURE.get(base, base)


def _place(text: str, default: int) -> Place:
    host, port = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    elif ":" in text:
        host, _, port = text.partition(":")
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise ConfigError(f"{text!r} has no usable port")
    return Place(host or "127.0.0.1", int(port or default))


def _positive(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not text.isdecimal() or not int(text):
        raise ConfigError(f"{name} is a number from 1 up, not {text!r}")
    return int(text)


def _context(target: Target) -> ssl.SSLContext | None:
    """TLS as the URL asks for it; certificates and names are always checked."""
    if target.scheme.partition("+")[0] not in _SECURE:
        return None
    try:
        context = ssl.create_default_context(cafile=target.options.get("ca"))
        if "cert" in target.options:
            context.load_cert_chain(target.options["cert"], target.options.get("key"))
    except OSError as reason:
        raise ConfigError(f"TLS of the KV store cannot be set up: {reason}") from None
    return context


def _redis(target: Target) -> BlockTransport:
    from askonce.kv.transports.endpoint import Endpoint
    from askonce.kv.transports.fleet import Rendezvous
    from askonce.kv.transports.resp import RespTransport, greeting

    hello = greeting(username=target.username, password=target.password, database=target.database)
    context = _context(target)

    def endpoint(place: Place) -> Endpoint:
        return Endpoint(place, greeting=hello, context=context)

    if target.scheme.endswith("+cluster"):
        from askonce.kv.transports.cluster import ClusterTransport

        return ClusterTransport(target.places, endpoint, lanes=target.lanes)
    return RespTransport(Rendezvous([endpoint(each) for each in target.places]), lanes=target.lanes)


def _memcached(target: Target) -> BlockTransport:
    from askonce.kv.transports.endpoint import Endpoint
    from askonce.kv.transports.fleet import Rendezvous
    from askonce.kv.transports.memcached import MemcachedTransport

    if target.username or target.password or target.database:
        raise ConfigError("Memcached is asked without login, and has no databases")
    context = _context(target)
    endpoints = [Endpoint(each, context=context) for each in target.places]
    item = _positive(target.options, "item", 1_000_000)
    if item < _LEAST_ITEM:
        raise ConfigError(f"item is {_LEAST_ITEM} bytes at least, not {item}")
    return MemcachedTransport(Rendezvous(endpoints), lanes=target.lanes, item_bytes=item)


def _memory(_: Target) -> BlockTransport:
    from askonce.kv.transports.memory import MemoryTransport

    return MemoryTransport()


_OPENERS: Mapping[str, Callable[[Target], BlockTransport]] = {
    "redis": _redis,
    "memcached": _memcached,
    "memory": _memory,
}

"""Which server has which key, and what a Memcached URL says; pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from hashlib import blake2b
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, unquote

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

POINTS = 160
"""Of each server on the ring: shares then differ by a tenth or so."""
PORT = 11211

_SHAPE = "memcached://host:port,host:port?namespace=name, or memcached:///path/to/socket"
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?")
_NAMESPACE = re.compile(r"[A-Za-z0-9._-]{1,64}")


class Address(msgspec.Struct, frozen=True):
    """Where a server listens: a socket file, or host and port."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        """As in the URL."""
        return self.path or f"{self.host}:{self.port}"


class MemcachedUrl(msgspec.Struct, frozen=True):
    """What a URL asks for."""

    servers: tuple[Address, ...]
    namespace: str = "askonce"
    item_bytes: int = 1024 * 1024
    """The servers' item limit (`-I`); longer values are split."""
    largest: int = 16 * 1024 * 1024
    """Longer values are refused."""
    patience: float = 0.5
    """Seconds without an answer after which a connection is given up."""


class Ring:
    """Consistent hashing: when a server goes or comes, only its own share moves."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: of the servers; their order does not matter."""
        points = sorted(
            (_place(f"{name}-{point}".encode()), number)
            for number, name in enumerate(names)
            for point in range(POINTS)
        )
        self._places = [place for place, _ in points]
        self._numbers = [number for _, number in points]

    def number_of(self, key: bytes) -> int:
        """Which of the names has the key."""
        at = bisect_right(self._places, _place(key))
        return self._numbers[at % len(self._numbers)]


def _place(data: bytes) -> int:
    return int.from_bytes(blake2b(data, digest_size=8).digest(), "big")


def parse_url(url: str) -> MemcachedUrl:
    """Read `memcached://…`; raises ConfigError."""
    place, _, query = url.partition("://")[2].partition("?")
    hosts, slash, path = place.partition("/")
    if hosts and not path:
        servers = tuple(_address(each) for each in hosts.split(","))
    elif slash and path and not hosts:
        servers = (Address(path=f"/{unquote(path)}"),)
    else:
        raise ConfigError(f"{url!r}: write {_SHAPE}")
    if len(set(servers)) != len(servers):
        raise ConfigError(f"{url!r} names a server twice")
    try:
        return msgspec.convert({"servers": servers, **_options(query)}, MemcachedUrl, strict=False)
    except (msgspec.ValidationError, ValueError) as error:
        raise ConfigError(f"{url!r}: {error}") from None


def _address(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or PORT) if found else 0
    if found is None or not 0 < port < 65536:
        raise ConfigError(f"{text!r} is no address of a Memcached server: write {_SHAPE}")
    return Address(found["host"].strip("[]"), port)


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    unknown = options.keys() - {"namespace", "item_bytes", "largest", "patience"}
    if unknown:
        raise ValueError(f"there is no option {min(unknown)!r}")
    if not _NAMESPACE.fullmatch(options.get("namespace", "askonce")):
        raise ValueError("a namespace is up to 64 letters, digits, dots, dashes, underscores")
    if int(options.get("item_bytes", "4096")) < 4096:
        raise ValueError("item_bytes is at least 4096")
    if not 0 < float(options.get("patience", "1")) < 60:
        raise ValueError("patience is above 0 and below 60 seconds")
    return options

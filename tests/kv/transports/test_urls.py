"""URLs of KV stores."""

from __future__ import annotations

import pytest

from askonce.errors import ConfigError
from askonce.kv.transports.memory import MemoryTransport
from askonce.kv.transports.urls import open_transport, parse
from askonce.kv.transports.wire import Place


def test_everything_that_a_url_can_say() -> None:
    """Servers, login, database and options."""
    told = parse("rediss+cluster://me:p%40ss@a:1,[::1]:2,b/3?lanes=4&ca=x")
    assert told.places == (Place("a", 1), Place("::1", 2), Place("b", 6379))
    assert (told.username, told.password, told.database) == ("me", "p@ss", 3)
    assert (told.family, told.lanes, told.options["ca"]) == ("redis", 4, "x")
    assert list(map(str, told.places)) == ["a:1", "[::1]:2", "b:6379"]


def test_a_socket_file() -> None:
    """Its path, and the database as an option."""
    told = parse("valkey+unix:///run/my%20redis.sock?db=2")
    assert (told.places, told.database) == ((Place("", 0, "/run/my redis.sock"),), 2)
    assert parse("memcached://").places == (Place("127.0.0.1", 11211),)
    assert isinstance(open_transport("memory://"), MemoryTransport)


@pytest.mark.parametrize(
    "url",
    [
        "redis",
        "http://a",
        "redis://a:x",
        "redis://a:0",
        "redis://a:70000",
        "redis://a/b",
        "redis://a?lanes=0",
        "redis://a?lane=2",
        "redis://a?lanes=",
        "redis://a?ca=/etc/ca.pem",
        "redis://a?item=4096",
        "redis://a?db=1",
        "memcached+unix:///run/m.sock?db=1",
        "memcached://me:secret@a",
        "memcached://a/1",
        "memcached://a?item=x",
        "rediss://a?ca=/nowhere.pem",
        "redis://[::1",
        "redis://a/\u00b2",
        "redis://a:\u00b2",
        "redis://a?lanes=\u00b2",
        "redis://a,",
        "redis://a,,b",
        "redis+unix://",
        "redis+unix://run/redis.sock",
        "memcached://a?item=100",
    ],
)
def test_what_cannot_be_used(url: str) -> None:
    """A clear error, and no connection."""
    with pytest.raises(ConfigError):
        open_transport(url)

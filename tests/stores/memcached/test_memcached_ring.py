"""Which server has which key, and what URLs mean."""

from __future__ import annotations

from collections import Counter

import pytest

from askonce.errors import ConfigError
from askonce.stores.memcached.ring import Address, Ring, parse_url

KEYS = [number.to_bytes(32, "big") for number in range(4000)]
NAMES = [f"10.0.0.{number}:11211" for number in range(8)]


def owners(names: list[str]) -> dict[bytes, str]:
    """Who has each key."""
    ring = Ring(names)
    return {key: names[ring.number_of(key)] for key in KEYS}


def test_shares_are_alike() -> None:
    """No server has much more than its share."""
    shares = Counter(owners(NAMES).values())
    assert len(shares) == 8
    assert max(shares.values()) < 1.5 * len(KEYS) / 8
    assert min(shares.values()) > 0.6 * len(KEYS) / 8


def test_only_the_share_of_a_lost_server_moves() -> None:
    """All other keys stay where they are, in whatever order servers are named."""
    before = owners(NAMES)
    after = owners([*reversed(NAMES[:3]), *NAMES[4:]])
    moved = {key for key in KEYS if before[key] != after[key]}
    assert moved == {key for key in KEYS if before[key] == NAMES[3]}


def test_urls_name_servers_and_options() -> None:
    """Hosts with and without ports, IPv6, a socket file, and options."""
    url = parse_url("memcached://a,b-c.d:1,[::1]:2?namespace=x.y&item_bytes=65536&patience=0.1")
    assert url.servers == (Address("a", 11211), Address("b-c.d", 1), Address("::1", 2))
    assert (url.namespace, url.item_bytes, url.patience) == ("x.y", 65536, 0.1)
    assert parse_url("memcached:///run/m%20c.sock").servers == (Address(path="/run/m c.sock"),)


@pytest.mark.parametrize(
    "url",
    [
        "memcached",
        "memcached://",
        "memcached://a,,b",
        "memcached://a:0",
        "memcached://a:99999",
        "memcached://a:x",
        "memcached://user:pass@a",
        "memcached://a/path",
        "memcached://a,a",
        "memcached://a?nonsense=1",
        "memcached://a?namespace=",
        "memcached://a?namespace=a%20b",
        "memcached://a?item_bytes=10",
        "memcached://a?item_bytes=x",
        "memcached://a?patience=0",
        "memcached://a?patience=nan",
        "memcached://a?largest=x",
        "memcached://a?b",
    ],
)
def test_a_wrong_url_is_refused_in_words(url: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigError, match=r"memcached|address"):
        parse_url(url)

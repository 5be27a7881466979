"""The store keeps every promise of its ports over every server and every way to it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
import trustme
from tests.servers.process import free_port
from tests.servers.redis import Kind, cluster, redis, watched

from askonce.clock import SystemClock
from askonce.ports import Followed, Lead, Revocation, Selector
from askonce.stores.redis.address import read_url
from askonce.stores.redis.revocations import RedisRevocations
from askonce.stores.redis.store import RedisStore
from askonce.testing import RecordingSink, check_store, check_store_epoch, check_store_tags
from askonce.units import Seconds, UnixTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = [pytest.mark.anyio, pytest.mark.servers, pytest.mark.slow]

TICK = 0.15
"""Seconds; the server's clock is the real one."""
PAGE = Path(__file__).parents[3] / "docs" / "operate" / "redis.md"


def rights() -> list[str]:
    """Of the least user, as the documentation has it."""
    line = next(line for line in PAGE.read_text().splitlines() if line.startswith("ACL SETUSER"))
    return line.split()[5:]


class Way(Protocol):
    """Brings a server about and gives its URL."""

    def __call__(self, stack: ExitStack, folder: Path) -> str:
        """See above; the stack ends it."""
        ...


def over_tcp(kind: Kind) -> Way:
    """A server, by its port."""
    return lambda stack, folder: stack.enter_context(redis(kind, folder)).url


def over_socket(stack: ExitStack, folder: Path) -> str:
    """By its socket file, in another database and namespace."""
    server = stack.enter_context(redis("redis7", folder))
    return f"redis+unix://{server.socket}?db=3&namespace=other"


def over_tls(stack: ExitStack, folder: Path) -> str:
    """Encrypted, both sides with a certificate, and with a user of few rights."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for name in ("localhost", "client"):
        authority.issue_cert(name).private_key_and_cert_chain_pem.write_to_path(
            folder / f"{name}.pem"
        )
    server = stack.enter_context(
        redis(
            "redis7",
            folder,
            arguments=(
                *("--tls-port", str(port := free_port())),
                *("--tls-cert-file", folder / "localhost.pem"),
                *("--tls-key-file", folder / "localhost.pem"),
                *("--tls-ca-cert-file", folder / "ca.pem"),
                *("--user", "cache", "on", ">p%40ss", *rights()),
            ),
        )
    )
    assert server.port != port
    files = f"ca={folder}/ca.pem&cert={folder}/client.pem"
    return f"rediss://cache:p%2540ss@localhost:{port}/?{files}"


def over_cluster(kind: Kind) -> Way:
    """Three nodes, of which one is named."""
    return lambda stack, folder: (
        f"redis+cluster://127.0.0.1:{stack.enter_context(cluster(kind, folder))[0].port}"
    )


def over_sentinel(stack: ExitStack, folder: Path) -> str:
    """The primary that three Sentinels name."""
    return stack.enter_context(watched("redis7", folder)).url


WAYS: dict[str, Way] = {
    "redis7": over_tcp("redis7"),
    "redis8": over_tcp("redis8"),
    "valkey": over_tcp("valkey"),
    "unix": over_socket,
    "tls": over_tls,
    "cluster7": over_cluster("redis7"),
    "valkey-cluster": over_cluster("valkey"),
    "sentinel": over_sentinel,
}


@pytest.fixture(params=list(WAYS))
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A way to a server of its own."""
    with ExitStack() as stack:
        yield WAYS[request.param](stack, tmp_path)


async def test_keeps_the_promises_of_its_ports(url: str) -> None:
    """It is a Store, a SupportsTags and a SupportsEpoch."""

    def make() -> RedisStore:
        return RedisStore(read_url(url), clock=SystemClock(), sink=RecordingSink())

    await check_store(make, tick=TICK)
    await check_store_tags(make, tick=TICK)
    await check_store_epoch(make, tick=TICK)
    await check_flights(make)
    log = RedisRevocations(read_url(url))
    await log.append(Revocation(what=Selector(tag="old"), at=UnixTime(1.0)))
    assert len((await log.read(0, 10)).rules) == 1
    await log.close()


async def check_flights(make: Callable[[], RedisStore]) -> None:
    """One leads, another follows, and afterwards there is the entry."""
    one, two = make(), make()
    lead = await one.board(b"k", b"f" * 32, look=True)
    followed = await two.board(b"k", b"f" * 32, look=True)
    assert isinstance(lead, Lead)
    assert isinstance(followed, Followed)
    lead.tell(b"piece")
    assert [*await followed.read()] == [b"piece"]
    lead.end(kept=True)
    assert [*await followed.read()] == []
    await one.put(b"k", b"v", ttl=Seconds(60.0))
    assert await two.board(b"k", b"f" * 32, look=True) == b"v"
    await one.close()
    await two.close()

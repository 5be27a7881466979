"""Every transport keeps the promises of its port, on real servers."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
from tests.servers.memcached import memcached
from tests.servers.process import free_port
from tests.servers.redis import redis

from askonce.clock import SystemClock
from askonce.kv.transports.cluster import slot_of
from askonce.kv.transports.memory import MemoryTransport
from askonce.kv.transports.urls import open_transport
from askonce.testing import FakeClock, check_block_transport
from askonce.units import Seconds

if TYPE_CHECKING:
    from pathlib import Path

    from tests.servers.redis import Kind, Redis

    from askonce.kv.ports import BlockTransport


def test_memory() -> None:
    """A dictionary does."""
    clock = FakeClock()
    check_block_transport(lambda: MemoryTransport(clock=clock), wait=clock.advance, clock=clock)


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redis7", "redis8", "valkey"])
def test_one_server_over_tcp(kind: Kind, tmp_path: Path) -> None:
    """Redis and Valkey do, with a password and a database."""
    with redis(kind, tmp_path, arguments=["--requirepass", "s p"]) as server:
        url = f"redis://:s%20p@127.0.0.1:{server.port}/3"
        check_block_transport(lambda: open_transport(url), wait=time.sleep)


@pytest.mark.servers
@pytest.mark.slow
def test_a_socket_file_with_lanes(tmp_path: Path) -> None:
    """Several connections to a socket file do."""
    with redis("redis7", tmp_path) as server:
        url = f"valkey+unix://{server.socket}?db=1&lanes=3"
        check_block_transport(lambda: open_transport(url), wait=time.sleep)


@pytest.mark.servers
@pytest.mark.slow
def test_several_servers(tmp_path: Path) -> None:
    """Keys spread over servers do, and each server has some of them."""
    with ExitStack() as stack:
        servers = [stack.enter_context(redis("valkey", _made(tmp_path / n))) for n in "abc"]
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in servers)
        check_block_transport(lambda: open_transport(f"redis://{hosts}"), wait=time.sleep)
        assert all(_said(each.port, b"DBSIZE") != b":0" for each in servers)


@pytest.mark.servers
@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["-I", "8m"]], ids=["striped", "large items"])
def test_memcached(arguments: list[str], tmp_path: Path) -> None:
    """Memcached does, with blocks in several items or in one."""
    with memcached(tmp_path, arguments=["-m", "256", *arguments]) as server:
        item = "?item=8000000" if arguments else ""
        check_block_transport(lambda: open_transport(server.url + item), wait=time.sleep)


@pytest.mark.servers
@pytest.mark.slow
def test_several_memcached(tmp_path: Path) -> None:
    """A block's items may lie on several servers."""
    with ExitStack() as stack:
        servers = [stack.enter_context(memcached(_made(tmp_path / n))) for n in "ab"]
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in servers)
        check_block_transport(lambda: open_transport(f"memcached://{hosts}"), wait=time.sleep)


@pytest.mark.servers
@pytest.mark.slow
def test_a_cluster_and_a_moved_slot(tmp_path: Path) -> None:
    """Servers of a cluster have the keys of their slots, and a slot that moves is followed."""
    with ExitStack() as stack:
        buses = [free_port(), free_port()]
        servers = [_cluster_node(stack, _made(tmp_path / str(bus)), bus) for bus in buses]
        _join(servers, buses[1])
        ports = [each.port for each in servers]
        url = f"redis+cluster://127.0.0.1:{ports[0]}"
        check_block_transport(lambda: open_transport(url), wait=time.sleep)
        for port in ports:  # a slot that still holds the suite's keys cannot be given away
            assert _said(port, b"FLUSHALL") == b"+OK"
        transport = open_transport(url)
        moved, migrating = (_key_below(8192, start) for start in (b"a", b"b"))
        assert _put(transport, _key_below(8192, b"c")) == "done"
        nodes = [_said(port, b"CLUSTER MYID").split(b"\r\n")[1] for port in ports]
        for port in reversed(ports):
            told = _said(port, b"CLUSTER SETSLOT %d NODE %b" % (slot_of(moved), nodes[1]))
            assert told == b"+OK"
        slot = slot_of(migrating)
        assert _said(ports[1], b"CLUSTER SETSLOT %d IMPORTING %b" % (slot, nodes[0])) == b"+OK"
        assert _said(ports[0], b"CLUSTER SETSLOT %d MIGRATING %b" % (slot, nodes[1])) == b"+OK"
        for key in (migrating, moved):
            assert _put(transport, key) == "done"
            assert transport.exists([key], deadline=_soon()) == ["done"]
        assert _said(ports[1], b"EXISTS " + moved) == b":1"
        transport.close()


@pytest.mark.servers
@pytest.mark.slow
def test_tls(tmp_path: Path, certificate: tuple[Path, Path]) -> None:
    """TLS does; a certificate that nobody vouches for is refused."""
    chain, key = certificate
    port = free_port()
    arguments = ["--tls-port", str(port), "--tls-cert-file", str(chain), "--tls-key-file", str(key)]
    arguments += ["--tls-auth-clients", "no", "--tls-ca-cert-file", str(chain)]
    with redis("redis7", tmp_path, arguments=arguments):
        url = f"rediss://localhost:{port}?ca={chain}"
        check_block_transport(lambda: open_transport(url), wait=time.sleep)
        strict = open_transport(f"rediss://localhost:{port}")
        assert strict.exists([b"k"], deadline=_soon()) == ["down"]
        strict.close()


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """One for localhost, signed by itself, and its key."""
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(chain)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return chain, key


def _soon() -> Seconds:
    return Seconds(SystemClock().monotonic() + 5)


def _put(transport: BlockTransport, key: bytes) -> str:
    (told,) = transport.put([key], [b"head"], [b"payload"], ttl=None, deadline=_soon())
    return told


def _key_below(limit: int, start: bytes) -> bytes:
    """A key of a slot below the limit."""
    return next(key for number in range(1000) if slot_of(key := b"%b%d" % (start, number)) < limit)


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def _cluster_node(stack: ExitStack, folder: Path, bus: int) -> Redis:
    arguments = ["--cluster-enabled", "yes", "--cluster-port", str(bus)]
    return stack.enter_context(redis("redis7", folder, arguments=arguments))


def _join(servers: list[Redis], bus: int) -> None:
    """Two servers, a half of the slots each, known to one another."""
    one, two = (each.port for each in servers)
    for epoch, port in enumerate((one, two), 1):  # else they are settled later
        assert _said(port, b"CLUSTER SET-CONFIG-EPOCH %d" % epoch) == b"+OK"
    assert _said(one, b"CLUSTER ADDSLOTSRANGE 0 8191") == b"+OK"
    assert _said(two, b"CLUSTER ADDSLOTSRANGE 8192 16383") == b"+OK"
    assert _said(one, b"CLUSTER MEET 127.0.0.1 %d %d" % (two, bus)) == b"+OK"
    end = time.monotonic() + 20
    while any(b"cluster_state:ok" not in _said(port, b"CLUSTER INFO") for port in (one, two)):
        assert time.monotonic() < end, "the cluster does not come together"
        time.sleep(0.05)


def _said(port: int, words: bytes) -> bytes:
    """What a server answers to a line, as it comes."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as wire:
        wire.sendall(words + b"\r\n")
        time.sleep(0.002)
        return wire.recv(65_536).removesuffix(b"\r\n")

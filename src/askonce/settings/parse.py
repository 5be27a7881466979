"""Single settings with their origin, and how they make one `Config`; pure."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NoReturn
from urllib.parse import urlsplit

import msgspec

from askonce.config import Config, UpstreamConfig
from askonce.errors import ConfigError
from askonce.settings.schema import SECTIONS, UPSTREAM, Key

PREFIX = "ASKONCE_"
NOT_SETTINGS = frozenset({"CONFIG", "DATA", "HANDED_OVER"})
SHORT_KEY = f"{PREFIX}UPSTREAM_API_KEY"
"""Belongs to whatever single upstream is named elsewhere; without one it says nothing."""
SHORT: Mapping[str, Path] = {
    "UPSTREAM_URL": (UPSTREAM, 0, "url"),
    "UPSTREAM_API_KEY": (UPSTREAM, 0, "api_key"),
}
TRUSTS = frozenset({"mode", "preset", "budget", "namespaces"})
"""Keys of `[trust]` that would mean nothing without it, and so turn it on."""
HIDDEN = frozenset({"api_key", "secret", "seal_keys", "tokens"})

Path = tuple[str | int, ...]


class Setting(msgspec.Struct, frozen=True):
    """One value that somebody set."""

    path: Path
    """Section, index where the section is a list, key."""
    value: object
    source: str
    """Where it was set, as the operator knows it: a file, a variable, a flag."""
    text: bool = False
    """The value is a string that may stand for one of another type."""
    alone: bool = False
    """It names the only upstream: those of weaker origins are dropped."""


def from_table(table: Mapping[str, object], source: str) -> Iterator[Setting]:
    """Settings of a parsed TOML document."""
    for section, keys in table.items():
        tables = enumerate(keys) if isinstance(keys, list) else [(None, keys)]
        for index, inner in tables:
            path: Path = (section,) if index is None else (section, index)
            if isinstance(inner, Mapping):
                yield from (Setting((*path, key), value, source) for key, value in inner.items())
            else:
                yield Setting(path, inner, source)


def from_environ(environ: Mapping[str, str]) -> Iterator[Setting]:
    """Settings of `ASKONCE_SECTION__KEY` variables, and of the two short ones for one upstream."""
    for variable in sorted(environ):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in NOT_SETTINGS:
            continue
        path = SHORT.get(name) or tuple(
            int(part) if part.isdigit() else part.lower() for part in name.split("__")
        )
        alone = name == "UPSTREAM_URL"
        yield Setting(path, environ[variable], variable, text=True, alone=alone)


def build(settings: Iterable[Setting]) -> Config:
    """Make the tree, later settings winning; raises ConfigError in plain words."""
    sections: dict[str, dict[str, object]] = {name: {} for name in SECTIONS}
    upstreams: dict[int, dict[str, object]] = {}
    sources: dict[int, str] = {}
    for setting in _in_force(list(settings)):
        key = _key(setting)
        section, index = str(setting.path[0]), setting.path[1]
        keys = upstreams.setdefault(index, {}) if isinstance(index, int) else sections[section]
        keys[key.name] = _checked(setting, key)
        if isinstance(index, int) and (key.name == "url" or index not in sources):
            sources[index] = setting.source
    if TRUSTS & sections["trust"].keys():
        sections["trust"].setdefault("enabled", True)
    chosen = tuple(_upstream(sources[at], at, upstreams[at]) for at in sorted(upstreams))
    return msgspec.convert({**sections, UPSTREAM: chosen}, Config)


def _in_force(settings: Sequence[Setting]) -> Iterator[Setting]:
    """Drop what a lone upstream makes void: a credential must not go to another's address."""
    last = max((at for at, each in enumerate(settings) if each.alone), default=-1)
    named = any(each.path[:2] == (UPSTREAM, 0) and each.source != SHORT_KEY for each in settings)
    for at, each in enumerate(settings):
        if each.source == SHORT_KEY:
            if named:
                yield each
        elif at >= last or not each.path or each.path[0] != UPSTREAM:
            yield each


def _key(setting: Setting) -> Key:
    """Find what a path leads to; raises ConfigError when it leads nowhere."""
    section, *rest = setting.path
    keys = SECTIONS.get(str(section))
    if keys is None:
        _refuse(setting, f"there is no section {section!r}{_nearest(str(section), SECTIONS)}")
    if section == UPSTREAM:
        if not rest or not isinstance(rest[0], int):
            _refuse(setting, "upstreams are a list: write [[upstream]] above each")
        rest = rest[1:]
    if len(rest) != 1:
        _refuse(setting, f"{section} is a section: write [{section}] and keys below it")
    key = keys.get(str(rest[0]))
    if key is None:
        _refuse(setting, f"{section} has no key {rest[0]!r}{_nearest(str(rest[0]), keys)}")
    return key


def _refuse(setting: Setting, why: str) -> NoReturn:
    raise ConfigError(f"{setting.source}: {why}")


def _nearest(name: str, known: Iterable[str]) -> str:
    choices = list(known)
    close = difflib.get_close_matches(name, choices, n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(choices)}"


def _checked(setting: Setting, key: Key) -> object:
    value = setting.value
    if setting.text and key.is_list:
        value = [part.strip() for part in str(value).split(",") if part.strip()]
    try:
        if setting.text and key.is_table:
            value = msgspec.json.decode(str(value))
        checked = msgspec.convert(value, key.annotation, strict=not setting.text)
    except msgspec.MsgspecError:
        checked = math.nan
    if isinstance(checked, float) and not math.isfinite(checked):
        shown = "(hidden)" if key.name in HIDDEN else repr(setting.value)
        path = ".".join(map(str, setting.path))
        _refuse(setting, f"{path} is {shown}, but must be {key.describe()}")
    return checked


def _upstream(source: str, index: int, keys: Mapping[str, object]) -> UpstreamConfig:
    name = f"{source}: upstream {index + 1}"
    if not keys.get("url"):
        raise ConfigError(f"{name} has no url")
    try:
        url = urlsplit(str(keys["url"]))
        sound = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ConfigError(f"{name}: the url must look like https://host/v1, with http or https")
    if url.username or url.password or url.query or url.fragment:
        raise ConfigError(f"{name}: the url must be plain; put a credential into api_key")
    return msgspec.convert(dict(keys), UpstreamConfig)

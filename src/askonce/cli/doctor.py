"""`askonce doctor`: what is wrong, in plain words, and how to mend it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from askonce.cli.checks import (
    Check,
    Finding,
    check_clock,
    check_data_dir,
    check_engine,
    check_port,
    check_semantic,
    check_store,
    check_upstreams,
    check_versions,
)
from askonce.errors import ConfigError
from askonce.settings import Setting, find_config_file, load_config, refuse_key_alone

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from askonce.config import Config

CHECKS: Sequence[Check] = (
    check_data_dir,
    check_port,
    check_upstreams,
    check_engine,
    check_store,
    check_semantic,
    check_clock,
)


def doctor(
    path: Path | None, environ: Mapping[str, str], flags: Iterable[Setting], *, as_json: bool
) -> int:
    """Print every finding; returns 1 when something must be mended, else 0."""
    findings = [check_versions()]
    try:
        config = load_config(path, environ, flags)
    except ConfigError as reason:
        mend = "correct it; docs/reference/config.md lists every key"
        findings.append(Finding("configuration", "fail", str(reason), mend))
    else:
        file = path or find_config_file(environ)
        says = f"read from {file}" if file else "no file; defaults, environment and flags"
        findings.append(Finding("configuration", "ok", says))
        findings += _lone_key(config, environ)
        findings += asyncio.run(examine(config))
    print(msgspec.json.encode(findings).decode() if as_json else "\n".join(report(findings)))
    return int(any(each.state == "fail" for each in findings))


def _lone_key(config: Config, environ: Mapping[str, str]) -> list[Finding]:
    try:
        refuse_key_alone(config, environ)
    except ConfigError as reason:
        return [Finding("configuration", "fail", str(reason), "name one, or unset the variable")]
    return []


async def examine(config: Config) -> list[Finding]:
    """All findings about one configuration, in the order of the checks."""
    found = await asyncio.gather(*(check(config) for check in CHECKS))
    return [finding for findings in found for finding in findings]


def report(findings: Iterable[Finding]) -> Iterable[str]:
    """One line a finding, and one with the mend where there is something to mend."""
    for each in findings:
        yield f"{each.state:5} {each.part:14} {each.says}"
        if each.mend:
            yield f"{'':20} -> {each.mend}"

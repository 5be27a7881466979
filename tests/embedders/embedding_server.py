"""A real `/v1/embeddings` for tests: llama.cpp over the packaged model, in a process of its own."""

from __future__ import annotations

import sys

import xllamacpp

from askonce.orphan import die_with_parent
from askonce.upstreams.embedded import installed_model

WINDOW = 512


def main() -> None:
    """Print the address, then serve until standard input ends."""
    die_with_parent()
    params = xllamacpp.CommonParams()
    params.model.path = str(installed_model())
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.embedding = True
    params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    params.n_ctx = params.n_batch = params.n_ubatch = WINDOW
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.verbosity = 1
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}/v1\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()

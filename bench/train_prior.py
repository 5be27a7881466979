"""Train the verifier's prior from labelled sets and write it where the package reads it.

    python bench/train_prior.py fow.pairs.jsonl.gz checklist.pairs.jsonl.gz support.group.jsonl.gz

Only coefficients are written, no text. docs/reference/prior.md says which sets made the shipped
file, and under which terms. With --left-out nothing is written: of each set of pairs it is told
what a prior made without it serves.
"""

from __future__ import annotations

import argparse
from functools import lru_cache
from pathlib import Path

import msgspec

from askonce.config import SemanticConfig
from askonce.embedders.onnx import MAX_TOKENS, Encoder
from askonce.lab import prior, sets

TARGET = Path(__file__).parent.parent / "src" / "askonce" / "trust" / "data" / "prior.json"


def main() -> None:
    """Read the sets, train, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=TARGET)
    parser.add_argument("--left-out", action="store_true")
    options = parser.parse_args()
    encoder = Encoder.load(SemanticConfig(), Path(), MAX_TOKENS)
    read = lru_cache(maxsize=None)(encoder.read)
    domains, texts, traps = [], [], []
    for path in sets.find(options.sets):
        labelled = sets.load(path, limit=2500)
        if labelled.pairs:
            traps.append((labelled.name, len(domains)))
        domains.append(prior.domain(labelled, read))
        texts += [asked.text for asked in labelled.asked]
        print(f"{labelled.name}: {len(domains[-1].labels)} pairs")
    domains.append(prior.turned(texts, read))
    print(f"made by rule: {len(domains[-1].labels)} pairs")
    if options.left_out:
        for name, at in traps:
            _tell(name, prior.left_out(domains, at))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_bytes(msgspec.json.format(msgspec.json.encode(prior.train(domains))) + b"\n")


def _tell(name: str, found: list[prior.LeftOut]) -> None:
    print(f"{name} left out, served where no guard speaks:")
    for each in found:
        print(f"  P >= {each.least:.2f}: {each.different:.1%} different, {each.same:.1%} same")


if __name__ == "__main__":
    main()

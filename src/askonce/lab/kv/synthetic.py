"""Seeded traces with the traits of the public ones, so that tests need no download."""

from __future__ import annotations

import random

from askonce.lab.kv.traces import Request, Trace

BLOCK = 512


def chat(requests: int = 3000, seed: int = 0) -> Trace:
    """A chat service: one shared first block, most sessions of one turn, others that go on.

    Three of four blocks are never read again, and turns follow each other within minutes.
    """
    draw = random.Random(seed)  # noqa: S311 - reproducible, not secret
    named = 1
    made: list[Request] = []
    start = 0.0
    while len(made) < requests:
        start += draw.expovariate(2.5)
        at, blocks = start, [0]
        goes_on = 0.3
        while True:
            fresh = max(1, int(draw.lognormvariate(1.2 if len(blocks) > 1 else 2.4, 1.0)))
            blocks = [*blocks, *range(named, named + fresh)]
            named += fresh
            tokens = len(blocks) * BLOCK + draw.randrange(BLOCK)
            output = draw.randrange(20, 600)
            made.append(Request(at, tokens, output, tuple(blocks)))
            if draw.random() > goes_on:
                break
            goes_on = min(0.8, goes_on + 0.1)
            at += max(20.0, draw.lognormvariate(4.8, 0.8))
    made.sort(key=lambda one: one.at)
    return Trace(name="synthetic chat", block_tokens=BLOCK, requests=tuple(made[:requests]))


def agents(sessions: int = 40, seed: int = 0) -> Trace:
    """Coding agents: long contexts that grow a little with each of many calls."""
    draw = random.Random(seed)  # noqa: S311 - reproducible, not secret
    named = 0
    made = []
    for _ in range(sessions):
        at, calls = 0.0, []
        blocks = list(range(named, named + draw.randrange(20, 60)))
        named += len(blocks)
        for _ in range(draw.randrange(5, 40)):
            fresh = draw.randrange(0, 6)
            blocks = [*blocks, *range(named, named + fresh)]
            named += fresh
            tokens = len(blocks) * BLOCK + draw.randrange(1, BLOCK)
            calls.append(Request(at, tokens, draw.randrange(50, 800), tuple(blocks)))
            at += draw.lognormvariate(2.7, 0.9)
        made.append(tuple(calls))
    return Trace(name="synthetic agents", block_tokens=BLOCK, sessions=tuple(made))

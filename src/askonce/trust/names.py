"""Namespaces as the evidence knows them: by a name that tells nothing a caller has written."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Literal

import msgspec

from askonce.trust.account.budget import Budget

Mode = Literal["off", "shadow", "on"]

DEFAULT = "default"
SHARED = bytes(32)
"""The tenant of all where all share answers."""


class Rules(msgspec.Struct, frozen=True):
    """What the operator set for one namespace."""

    mode: Mode = "on"
    budget: Budget = Budget()


def _digest(text: bytes) -> str:
    return hashlib.blake2b(text, digest_size=6, person=b"askonce names").hexdigest()


class Namespaces(Mapping[bytes, Budget]):
    """Names and rules; as a mapping, the budget of each configured namespace by its label.

    One tenant's traffic never moves another's thresholds, so each has labels of its own.
    """

    def __init__(self, otherwise: Rules, configured: Mapping[str, Rules]) -> None:
        """otherwise: for namespaces that are not configured, the nameless one included."""
        self._otherwise = otherwise
        self._configured = dict(configured)

    def rules(self, name: str) -> Rules:
        """The rules of the namespace that a caller named; the nameless one is called `default`."""
        return self._configured.get(name or DEFAULT, self._otherwise)

    def label(self, name: str, tenant: bytes) -> str:
        """A configured name stands for itself, another one for its digest."""
        shown = name if name in self._configured else f"ns-{_digest(name.encode())}"
        shown = shown if name else DEFAULT
        return shown if tenant == SHARED else f"{shown}.{_digest(tenant)}"

    @staticmethod
    def belongs(label: str, tenant: bytes) -> bool:
        """Whether a label is one of this tenant's."""
        return tenant == SHARED or label.endswith(f".{_digest(tenant)}")

    def __getitem__(self, label: bytes) -> Budget:
        """The budget of a configured namespace; raises KeyError."""
        name = label.decode()
        found = self._configured.get(name) or self._configured[name.rpartition(".")[0]]
        return found.budget

    def __iter__(self) -> Iterator[bytes]:
        """The configured names."""
        return (name.encode() for name in self._configured)

    def __len__(self) -> int:
        """How many are configured."""
        return len(self._configured)


def question_digest(partition: bytes, text: str) -> bytes:
    """What stands for a question where its text must not be kept; 32 bytes."""
    named = partition + text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(named, digest_size=32, person=b"askonce question").digest()

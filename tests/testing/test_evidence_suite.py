"""The suite for evidence logs catches a log that breaks a promise."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from askonce.testing import FakeClock
from askonce.testing.evidence import MemoryEvidenceLog, check_evidence_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from askonce.ports import Evidence

pytestmark = pytest.mark.anyio


class Sound(MemoryEvidenceLog):
    """A log that keeps its promises."""

    def __init__(self) -> None:
        """Hold a thousand records."""
        super().__init__(clock=FakeClock(), max_records=1000)


class Forgets(Sound):
    """Keeps no features."""

    async def append(self, records: Sequence[Evidence]) -> int:
        """Drop what the verifier saw."""
        return await super().append([msgspec.structs.replace(r, features=b"") for r in records])


class Halves(Sound):
    """Appends one by one, so that a bad record leaves others behind."""

    async def append(self, records: Sequence[Evidence]) -> int:
        """Append each alone."""
        return max([await super(Halves, self).append([record]) for record in records], default=0)


class Repeats(Sound):
    """Gives the record at the seq again."""

    async def since(self, seq: int, limit: int) -> list[Evidence]:
        """Begin one too early."""
        return await super().since(seq - 1, limit)


class Whispers(Sound):
    """Marks without telling."""

    async def retract(self, entry: bytes) -> int:
        """Take the announcement back."""
        marked = await super().retract(entry)
        self._records.pop()
        return marked


class Backwards(Sound):
    """Gives the youngest first."""

    async def of_entry(self, entry: bytes) -> list[Evidence]:
        """Turn it round."""
        return (await super().of_entry(entry))[::-1]


class Lasting(Sound):
    """Serves on after close."""

    async def close(self) -> None:
        """Do nothing."""


async def test_passes_a_sound_log() -> None:
    """A log that keeps all promises passes."""
    await check_evidence_log(Sound)


@pytest.mark.parametrize(
    ("broken", "promise"),
    [
        (Forgets, "come back as appended"),
        (Halves, "all records or none"),
        (Repeats, "goes on after the seq"),
        (Whispers, "told to followers"),
        (Backwards, "oldest first"),
        (Lasting, "after close"),
    ],
)
async def test_catches_a_broken_log(broken: type[Sound], promise: str) -> None:
    """Each broken promise is named."""
    with pytest.raises(AssertionError, match=promise):
        await check_evidence_log(broken)

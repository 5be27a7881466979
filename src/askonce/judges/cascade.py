"""Several judges, the cheap before the dear."""

from __future__ import annotations

from typing import TYPE_CHECKING

from askonce.ports import Verdict

if TYPE_CHECKING:
    from askonce.ports import Judge


class CascadeJudge:
    """A `Judge` that asks others in turn until one is sure."""

    def __init__(self, *judges: Judge) -> None:
        """Take the judges over: `close` closes them."""
        self._judges = judges

    async def judge(self, question: str, cached: str, fresh: str) -> Verdict:
        """See `Judge`."""
        verdict = Verdict("unsure", "nobody")
        for judge in self._judges:
            verdict = await judge.judge(question, cached, fresh)
            if verdict.agreement != "unsure":
                break
        return verdict

    async def close(self) -> None:
        """See `Judge`."""
        for judge in self._judges:
            await judge.close()

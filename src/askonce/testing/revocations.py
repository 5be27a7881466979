"""What every revocation log must do, as a suite that any author can run.

    await check_revocations(lambda: MyRevocationLog(...))

It raises AssertionError with the broken promise in plain words.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from askonce.errors import StoreError
from askonce.ports import Revocation, RevocationLog, Selector
from askonce.units import UnixTime

MakeLog = Callable[[], RevocationLog | Awaitable[RevocationLog]]
"""Makes a log over one and the same place; the first call finds it empty."""


async def check_revocations(make: MakeLog, *, shared: bool = True) -> None:
    """Run the whole suite; shared: whether a second log over the same place sees the first's."""
    log = await _made(make)
    await _numbers_grow(log)
    await _pages(log)
    await _at_once(log)
    if shared:
        await _shared(log, make)
    await log.close()
    await log.close()
    await _refuses(log)


async def _made(make: MakeLog) -> RevocationLog:
    made = make()
    return await made if inspect.isawaitable(made) else made


def _rule(model: str) -> Revocation:
    return Revocation(what=Selector(model=model), at=UnixTime(1.5), by="somebody", why="because")


async def _numbers_grow(log: RevocationLog) -> None:
    empty = await log.read(0, 10)
    _expect(empty.rules == (), "a new log has rules")
    _expect(empty.last == empty.birth, "a new log's last rule is not its birth")
    first = await log.append(_rule("a"))
    second = await log.append(_rule("b"))
    _expect(empty.birth < first < second, "numbers do not grow from the birth on")
    page = await log.read(first, 10)
    _expect([rule.seq for rule in page.rules] == [second], "a read gives more than what came after")
    _expect(page.rules[0].what == Selector(model="b"), "a rule is not what was appended")
    _expect((page.rules[0].by, page.rules[0].why) == ("somebody", "because"), "a reason was lost")
    _expect((page.birth, page.last) == (empty.birth, second), "the ends of the log are wrong")


async def _pages(log: RevocationLog) -> None:
    before = (await log.read(0, 0)).last
    for number in range(5):
        await log.append(_rule(str(number)))
    page = await log.read(before, 3)
    _expect(len(page.rules) == 3, "a limit is not kept")
    rest = await log.read(page.rules[-1].seq, 3)
    models = [rule.what.model for rule in (*page.rules, *rest.rules)]
    _expect(models == ["0", "1", "2", "3", "4"], "pages lose rules or their order")


async def _at_once(log: RevocationLog) -> None:
    seqs = await asyncio.gather(*(log.append(_rule("many")) for _ in range(20)))
    _expect(len(set(seqs)) == 20, "two rules have the same number")


async def _shared(log: RevocationLog, make: MakeLog) -> None:
    other = await _made(make)
    mine, theirs = await log.read(0, 100), await other.read(0, 100)
    _expect(mine == theirs, "another process sees other rules")
    seq = await other.append(_rule("theirs"))
    _expect((await log.read(mine.last, 10)).last == seq, "another's rule is not seen")
    await other.close()


async def _refuses(log: RevocationLog) -> None:
    for call in (log.append(_rule("late")), log.read(0, 1)):
        try:
            await call
        except StoreError:
            continue
        raise AssertionError("a closed log still answers")


def _expect(kept: bool, promise: str) -> None:  # noqa: FBT001 - reads as a sentence where it is called
    if not kept:
        raise AssertionError(promise)

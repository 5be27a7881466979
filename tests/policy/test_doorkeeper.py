"""The doorkeeper knows who has come before, within its bounds."""

from __future__ import annotations

from hashlib import sha256

from askonce.policy import doorkeeper
from askonce.policy.doorkeeper import Doorkeeper


def keys(name: str, count: int) -> list[bytes]:
    """Keys like those of requests."""
    return [sha256(f"{name} {number}".encode()).digest() for number in range(count)]


def test_a_key_is_new_once() -> None:
    """The second time it is known."""
    door = Doorkeeper()
    assert not any(map(door.knows, keys("a", 1000)))
    assert all(map(door.knows, keys("a", 1000)))


def test_a_full_door_takes_few_for_known() -> None:
    """About one in 400 new keys passes for known."""
    door = Doorkeeper()
    for key in keys("a", doorkeeper.REMEMBERED):
        door.knows(key)
    assert sum(map(door.knows, keys("b", 4000))) < 40


def test_it_forgets_the_older_generation() -> None:
    """At least so many keys stay known, and those before them do not for ever."""
    door = Doorkeeper()
    first = keys("first", 100)
    for key in first:
        door.knows(key)
    for key in keys("then", doorkeeper.REMEMBERED):
        door.knows(key)
    assert all(map(door.knows, first[:50]))
    for key in keys("later", 2 * doorkeeper.REMEMBERED + 1000):
        door.knows(key)
    assert sum(map(door.knows, first[50:])) < 3

"""The sketch: counts in bounded bytes."""

from __future__ import annotations

import hashlib

import pytest

from askonce.kv.sketch import Sketch


def hashed(number: int) -> int:
    """64 bits of a block's hash."""
    return int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=8).digest(), "big")


def test_counts_are_exact_while_few_are_counted() -> None:
    """A block's count is how often it was added, and adding tells the count before."""
    sketch = Sketch(1024)
    assert [sketch.add(hashed(1)) for _ in range(4)] == [0, 1, 2, 3]
    assert sketch.count(hashed(1)) == 4
    assert sketch.count(hashed(2)) == 0


def test_counts_are_never_too_low_and_rarely_too_high() -> None:
    """With as many blocks as places, at most one in five counts too high."""
    sketch = Sketch(1 << 12)
    for number in range(1 << 12):
        sketch.add(hashed(number))
    counts = [sketch.count(hashed(number)) for number in range(1 << 12)]
    assert min(counts) == 1
    assert sum(count > 1 for count in counts) < (1 << 12) / 5


def test_a_count_stops_at_its_top() -> None:
    """255 sights are as good as any number."""
    sketch = Sketch(128)
    for _ in range(300):
        sketch.add(7)
    assert sketch.count(7) == 255


def test_old_sights_fade() -> None:
    """Counts halve after four additions for each place, so what was hot does not stay so."""
    sketch = Sketch(4)
    for _ in range(15):
        sketch.add(7)
    assert sketch.count(7) == 15
    sketch.add(7)
    assert sketch.count(7) == 8
    sketch.age()
    assert sketch.count(7) == 4


@pytest.mark.parametrize("width", [0, 1, 3, 1000])
def test_a_width_must_be_a_power_of_two(width: int) -> None:
    """Hashes are cut by shifts."""
    with pytest.raises(ValueError, match="power of two"):
        Sketch(width)

"""What a server announces is looked at before a parser makes room for it."""

from __future__ import annotations

import random

import pytest

from askonce.stores.redis.wire import LONGEST_LINE, MOST_PARTS, Headers

HONEST = (
    b"*2\r\n$8\r\n12345678\r\n$20\r\n*1000000000\r\n%9999\r\n\r\n"
    b"$-1\r\n_\r\n:1\r\n+OK\r\n-ERR no\r\n"
    b">2\r\n+invalidate\r\n*1\r\n$3\r\nkey\r\n%1\r\n$4\r\nrole\r\n$6\r\nmaster\r\n*-1\r\n"
)
PARTS = 2 + 2 + 1 + 1


@pytest.mark.parametrize("seed", range(20))
def test_headers_are_read_however_the_bytes_are_cut(seed: int) -> None:
    """Values may say anything; only what stands between them counts."""
    draw, headers, said = random.Random(seed), Headers(), HONEST * 3
    while said:
        size = draw.choice((1, 2, 3, 7, 50))
        headers.read(said[:size])
        said = said[size:]
    assert headers.parts == 3 * PARTS


@pytest.mark.parametrize(
    "said",
    [
        b"*1000000000\r\n",
        b"*1\r\n%1000000000\r\n",
        b"*%d\r\n" % (MOST_PARTS // 2) * 3,
        b"*-1000000000\r\n*1000000000\r\n",
        b"*many\r\n",
        b"$much\r\n",
        b"+" + b"x" * (LONGEST_LINE + 1),
    ],
)
def test_too_much_is_refused(said: bytes) -> None:
    """Also when it comes byte by byte."""
    with pytest.raises(ValueError, match=r"line|parts|literal"):
        Headers().read(said)
    with pytest.raises(ValueError, match=r"line|parts|literal"):
        read_slowly(said)


def read_slowly(said: bytes) -> None:
    """One byte at a time."""
    headers = Headers()
    for at in range(len(said)):
        headers.read(said[at : at + 1])

"""What a replica saw, on pages of one size, for the others to read.

A request is the count of its blocks and 8 bytes for each; a count of zero ends a page.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE_BYTES: Final = 32 * 1024
_COUNT: Final = struct.Struct("<I")
_HASH_BYTES: Final = 8
_MOST: Final = (PAGE_BYTES - _COUNT.size) // _HASH_BYTES
"""Blocks on a page that holds one request alone; longer ones go on as another request."""


class Journal:
    """Sights that wait to be told; bounded, and full for a while where nobody listens."""

    def __init__(self, pages: int) -> None:
        """pages: kept at most."""
        self._most = pages
        self._pages: list[bytearray] = []
        self.dropped = 0
        """Blocks that were left out since the journal was full."""

    def write_down(self, hashes: Sequence[int]) -> None:
        """One request's blocks, in order."""
        for at in range(0, len(hashes), _MOST):
            self._add(hashes[at : at + _MOST])

    def drain(self) -> list[bytes]:
        """All pages since the last call, each padded to its size."""
        drained, self._pages = self._pages, []
        return [bytes(page.ljust(PAGE_BYTES, b"\0")) for page in drained]

    def _add(self, hashes: Sequence[int]) -> None:
        size = _COUNT.size + _HASH_BYTES * len(hashes)
        if not self._pages or len(self._pages[-1]) + size > PAGE_BYTES:
            if len(self._pages) >= self._most:
                self.dropped += len(hashes)
                return
            self._pages.append(bytearray())
        self._pages[-1] += struct.pack(f"<I{len(hashes)}Q", len(hashes), *hashes)


def read_page(page: bytes) -> list[tuple[int, ...]] | None:
    """The requests on a page; None for what is not one."""
    if len(page) != PAGE_BYTES:
        return None
    requests: list[tuple[int, ...]] = []
    place = 0
    while len(page) - place >= _COUNT.size:
        (count,) = _COUNT.unpack_from(page, place)
        if not count:
            break
        place += _COUNT.size
        if count > (len(page) - place) // _HASH_BYTES:
            return None
        requests.append(struct.unpack_from(f"<{count}Q", page, place))
        place += _HASH_BYTES * count
    return None if page[place:].strip(b"\0") else requests

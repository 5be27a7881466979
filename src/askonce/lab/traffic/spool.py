"""Texts on disk instead of in memory, by number."""

from __future__ import annotations

import hashlib
import tempfile
from array import array


class Spool:
    """A private file without a name that ends with the process; equal texts are kept once."""

    def __init__(self) -> None:
        """Make the file."""
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by close()
        self._ends = array("Q")
        self._known: dict[bytes, int] = {}
        self._unwritten = False

    def __len__(self) -> int:
        """How many texts there are."""
        return len(self._ends)

    def add(self, text: str) -> int:
        """The text's number."""
        data = text.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, digest_size=16).digest()
        number = self._known.get(digest)
        if number is None:
            number = self._known[digest] = len(self._ends)
            self._ends.append(self._end(number - 1) + len(data))
            self._file.write(data)
            self._unwritten = True
        return number

    def get(self, number: int) -> str:
        """The text of this number."""
        if self._unwritten:
            self._file.flush()
            self._unwritten = False
        start = self._end(number - 1)
        position = self._file.tell()
        self._file.seek(start)
        data = self._file.read(self._end(number) - start)
        self._file.seek(position)
        return data.decode("utf-8", "surrogatepass")

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _end(self, number: int) -> int:
        return self._ends[number] if number >= 0 else 0

"""The lines of a log file, one at a time, whatever the file holds."""

from __future__ import annotations

import gzip
import zlib
from typing import TYPE_CHECKING, BinaryIO, cast

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LONGEST = 16 * 1024 * 1024
"""Bytes of a line; a longer one is skipped."""
_GZIP = b"\x1f\x8b"
_SKIP = 1024 * 1024


class LogFile:
    """A text file, gzip or not, read as a stream; holds one line at a time."""

    def __init__(self, path: Path, *, longest: int = LONGEST) -> None:
        """Open it; raises ConfigError."""
        self._longest = longest
        self._path = path
        try:
            self._raw = path.open("rb")
            self._size = path.stat().st_size
            packed = self._raw.read(2) == _GZIP
            self._raw.seek(0)
        except OSError as reason:
            raise ConfigError(f"{path} cannot be read: {reason.strerror}") from None
        opened = gzip.GzipFile(fileobj=self._raw) if packed else self._raw
        self._file = cast("BinaryIO", opened)

    @property
    def done(self) -> float:
        """Share of the file that was read."""
        return self._raw.tell() / self._size if self._size else 1.0

    def __iter__(self) -> Iterator[tuple[int, bytes, str]]:
        """Number, line, and why the line cannot be used; a file that breaks ends with a reason."""
        number = 0
        try:
            while line := self._file.readline(self._longest + 1):
                number += 1
                whole = len(line) <= self._longest or line.endswith(b"\n")
                if not whole:
                    self._skip_line()
                if line.strip():
                    yield number, line, "" if whole else "line_too_long"
        except (gzip.BadGzipFile, EOFError, zlib.error):
            yield number + 1, b"", "file_truncated_or_damaged"
        except OSError as reason:
            raise ConfigError(f"{self._path} cannot be read: {reason.strerror}") from None

    def close(self) -> None:
        """Release the file."""
        self._file.close()
        self._raw.close()

    def _skip_line(self) -> None:
        while (piece := self._file.readline(_SKIP)) and not piece.endswith(b"\n"):
            pass

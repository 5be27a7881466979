"""Lines come out one by one, whatever the file holds."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from askonce.errors import ConfigError
from askonce.lab.traffic.lines import LogFile

if TYPE_CHECKING:
    from pathlib import Path


def lines(path: Path, content: bytes, *, longest: int = 100) -> list[tuple[int, bytes, str]]:
    """Everything that a file with this content gives."""
    path.write_bytes(content)
    file = LogFile(path, longest=longest)
    found = list(file)
    assert file.done == 1.0
    file.close()
    return found


def test_plain_and_packed_files_give_the_same(tmp_path: Path) -> None:
    """Gzip is known by its first bytes, blank lines are passed over, numbers count all lines."""
    text = b"one\n\ntwo\nthree"
    expected = [(1, b"one\n", ""), (3, b"two\n", ""), (4, b"three", "")]
    assert lines(tmp_path / "a", text) == expected
    assert lines(tmp_path / "b", gzip.compress(text)) == expected


def test_a_long_line_is_skipped_whole(tmp_path: Path) -> None:
    """Only its beginning is held, and the next line is read as ever."""
    found = lines(tmp_path / "a", b"x" * 1000 + b"\nnext\n", longest=10)
    assert [(number, len(line), fault) for number, line, fault in found] == [
        (1, 11, "line_too_long"),
        (2, 5, ""),
    ]


def test_a_truncated_archive_ends_with_a_reason(tmp_path: Path) -> None:
    """What could be unpacked counts."""
    packed = gzip.compress(b"".join(b"line %d\n" % n for n in range(5000)))
    found = lines(tmp_path / "a", packed[: len(packed) // 2])
    assert len(found) > 100
    assert found[-1][2] == "file_truncated_or_damaged"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error says which file, and why."""
    with pytest.raises(ConfigError, match=r"gone.*No such file"):
        LogFile(tmp_path / "gone")
    with pytest.raises(ConfigError, match="Is a directory"):
        LogFile(tmp_path)

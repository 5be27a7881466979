"""An engine that answers at once, always the same: `python -m bench.origin PORT FILE`."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import cast

import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Origin(asyncio.Protocol):
    """Counts request bytes and writes the answer; knows no other HTTP."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._held = b""
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer every request that is whole."""
        self._held += data
        assert self._transport is not None
        while (end := self._end()) and end <= len(self._held):
            self._held = self._held[end:]
            self._transport.write(self._answer)

    def _end(self) -> int:
        """Where the first request ends, or 0 while its head is not whole."""
        head = self._held.find(b"\r\n\r\n")
        if head < 0:
            return 0
        length = _LENGTH.search(self._held, 0, head + 2)
        return head + 4 + (int(length.group(1)) if length else 0)


async def serve(port: int, body: bytes) -> None:
    """Answer until killed."""
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    answer = head.encode() + b"\r\n\r\n" + body
    server = await asyncio.get_running_loop().create_server(
        lambda: Origin(answer), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), Path(sys.argv[2]).read_bytes()))

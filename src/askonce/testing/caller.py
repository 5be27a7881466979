"""A client that sees every byte of HTTP/1.1, also when it is broken."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec


class Answer(msgspec.Struct):
    """One response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    """The body ended as its framing says."""

    @property
    def json(self) -> dict[str, Any]:
        """The body, decoded; it must be an object."""
        return msgspec.json.decode(self.body, type=dict[str, Any])


class Caller:
    """A client that sees every byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        """Put bytes on the wire."""
        self.writer.write(data)
        await self.writer.drain()

    async def ask(self, method: str, path: str, body: bytes = b"", *headers: str) -> Answer:
        """One request and its response."""
        length = [f"content-length: {len(body)}"] if body else []
        lines = [f"{method} {path} HTTP/1.1", "host: gateway", *length, *headers, "", ""]
        await self.send("\r\n".join(lines).encode() + body)
        return await self.answer(method)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Status and headers of the next response."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if line)
        return int(lines[0].split()[1]), headers

    async def answer(self, method: str = "GET") -> Answer:
        """The next response, as far as it comes."""
        status, headers = await self.head()
        body, whole = b"", True
        try:
            if method == "HEAD" or status in {204, 304}:
                pass
            elif "transfer-encoding" in headers:
                while chunk := await self.chunk():
                    body += chunk
            else:
                body = await self.reader.readexactly(int(headers["content-length"]))
        except asyncio.IncompleteReadError as exc:
            body, whole = body + exc.partial, False
        except ConnectionResetError:
            whole = False
        return Answer(status, headers, body, whole)

    async def chunk(self) -> bytes:
        """The next chunk of a chunked body; the last is empty."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size)
        await self.reader.readexactly(2)
        return data

    async def at_end(self) -> bool:
        """Whether the other side has closed the connection."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

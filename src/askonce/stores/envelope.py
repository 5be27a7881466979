"""Values as a store outside this machine keeps them: checked, compressed, perhaps encrypted.

    "AOV" version form length            9 bytes; length is the plain value's
    digest, or key id and nonce          16 bytes, or 4 and 12
    body                                 the value, or its deflated or encrypted form

Digest and encryption cover the namespace, the key and the head, so a value that was cut, damaged,
moved to another key or taken from another namespace does not open. What does not open is a miss.
"""

from __future__ import annotations

import asyncio
import os
import struct
import zlib
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec.structs import replace

from askonce.errors import ConfigError, MissingExtra
from askonce.events import Unreadable
from askonce.ports import (
    StoreStats,
    SupportsAbsence,
    SupportsEpoch,
    SupportsFlights,
    SupportsOwners,
    SupportsPutMany,
    SupportsTags,
    SupportsWatch,
)
from askonce.units import Bytes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from askonce.ports import Followed, Lead, Put, Sink, Store
    from askonce.units import Seconds

Reason = Literal["short", "foreign", "version", "damaged", "no_key", "length"]
"""Why a value does not open."""

COMPRESS_LEVEL = 1
"""Of zlib: higher ones take twice as long for a tenth less."""
LARGEST = 256 * 1024 * 1024
"""A value that claims to be longer is not even tried."""
OFF_LOOP = 128 * 1024
"""Bytes from which on the work leaves the event loop."""

_MAGIC = b"AOV"
_VERSION = 1
_DEFLATED, _ENCRYPTED = 1, 2
_HEAD = struct.Struct(">3sBBI")
_DIGEST, _KEY_ID, _NONCE, _TAG = 16, 4, 12, 16
_KEY_BYTES = 32


class KeyRing:
    """AES-256 keys by their ids: the first seals, all open."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """keys: 32 bytes each, newest first; raises MissingExtra, ConfigError."""
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise MissingExtra("cryptography", "seal") from error
        if not keys or any(len(key) != _KEY_BYTES for key in keys):
            raise ConfigError(
                "a sealing key is 64 hexadecimal digits, as of `openssl rand -hex 32`"
            )
        self.invalid: type[Exception] = InvalidTag
        self.known: dict[bytes, AESGCM] = {_key_id(key): AESGCM(key) for key in keys}
        self.newest = _key_id(keys[0])


class Envelope:
    """Puts values of one namespace into their envelope and takes them out; no I/O."""

    def __init__(self, namespace: str, *, compress_over: int, keys: KeyRing | None = None) -> None:
        """compress_over: bytes from which on values are compressed; 0 never does.

        keys: with them values are encrypted, and others do not open.
        """
        self._compress_over = compress_over
        self._keys = keys
        self._opening = b"askonce value" + _sized(namespace.encode())
        self.overhead = _HEAD.size + (_DIGEST if keys is None else _KEY_ID + _NONCE + _TAG)
        """Bytes that it adds to a value that is not compressed."""

    @property
    def encrypts(self) -> bool:
        """Whether values can be read with a key alone."""
        return self._keys is not None

    def seal(self, key: bytes, value: bytes) -> bytes:
        """The value in its envelope."""
        form, body = 0, value
        if 0 < self._compress_over <= len(value):
            deflated = zlib.compress(value, COMPRESS_LEVEL)
            if len(deflated) < len(value):
                form, body = _DEFLATED, deflated
        if self._keys is None:
            head = _HEAD.pack(_MAGIC, _VERSION, form, len(value))
            return b"".join((head, self._digest(key, head, body), body))
        head = _HEAD.pack(_MAGIC, _VERSION, form | _ENCRYPTED, len(value)) + self._keys.newest
        nonce = os.urandom(_NONCE)
        cipher = self._keys.known[self._keys.newest]
        return b"".join((head, nonce, cipher.encrypt(nonce, body, self._bound(key, head))))

    def open(self, key: bytes, sealed: bytes) -> bytes | Reason:
        """The value, or why it is none; raises nothing."""
        if len(sealed) < _HEAD.size:
            return "short"
        magic, version, form, length = _HEAD.unpack_from(sealed)
        if magic != _MAGIC:
            return "foreign"
        if version != _VERSION or form & ~(_DEFLATED | _ENCRYPTED):
            return "version"
        if length > LARGEST:
            return "length"
        body = self._decrypted(key, sealed) if form & _ENCRYPTED else self._checked(key, sealed)
        if isinstance(body, str):
            return body
        value = _inflated(body, length) if form & _DEFLATED else body
        return value if len(value) == length else "length"

    def _checked(self, key: bytes, sealed: bytes) -> bytes | Reason:
        if self._keys is not None:  # anybody could have written it
            return "no_key"
        start = _HEAD.size + _DIGEST
        body = sealed[start:]
        if sealed[_HEAD.size : start] != self._digest(key, sealed[: _HEAD.size], body):
            return "damaged"
        return body

    def _decrypted(self, key: bytes, sealed: bytes) -> bytes | Reason:
        at = _HEAD.size + _KEY_ID
        keys = self._keys
        cipher = keys.known.get(sealed[_HEAD.size : at]) if keys is not None else None
        if keys is None or cipher is None:
            return "no_key"
        if len(sealed) < at + _NONCE + _TAG:
            return "short"
        nonce, body = sealed[at : at + _NONCE], memoryview(sealed)[at + _NONCE :]
        try:
            return cipher.decrypt(nonce, body, self._bound(key, sealed[:at]))
        except keys.invalid:
            return "damaged"

    def _digest(self, key: bytes, head: bytes, body: bytes) -> bytes:
        digest = sha256(self._bound(key, head))
        digest.update(body)
        return digest.digest()[:_DIGEST]

    def _bound(self, key: bytes, head: bytes) -> bytes:
        return b"".join((self._opening, len(key).to_bytes(8, "big"), key, head))


class SealedStore:
    """A `Store` over another one whose values are in envelopes; has the other's abilities."""

    def __init__(self, store: Store, envelope: Envelope, *, sink: Sink) -> None:
        """sink: is told of every value that does not open."""
        self._store = store
        self._envelope = envelope
        self._sink = sink
        self.delete = store.delete
        self.clear = store.clear
        self.close = store.close
        if isinstance(store, SupportsTags):
            self.delete_tag = store.delete_tag
        if isinstance(store, SupportsEpoch):
            self.epoch = store.epoch
        if isinstance(store, SupportsOwners):
            self.owned = store.owned
        if isinstance(store, SupportsAbsence):
            self.surely_absent = store.surely_absent
        if isinstance(store, SupportsPutMany):
            self.put_many = _sealing(store, self._sealed)
        if isinstance(store, SupportsWatch):
            self.watch = store.watch
        if isinstance(store, SupportsFlights) and not envelope.encrypts:
            self.board = _opening(store, envelope)  # what leaders relay is in no envelope

    async def get(self, key: bytes) -> bytes | None:
        """See `Store`; a value that does not open is none."""
        sealed = await self._store.get(key)
        if sealed is None:
            return None
        opened = await _opened(self._envelope, key, sealed)
        if isinstance(opened, str):
            self._sink.emit(Unreadable("store", opened))
            return None
        return opened

    async def put(
        self, key: bytes, value: bytes, *, ttl: Seconds, tags: Sequence[str] = ()
    ) -> None:
        """See `Store`."""
        sealed = await self._sealed(key, value) if ttl > 0 else b""
        await self._store.put(key, sealed, ttl=ttl, tags=tags)

    async def stats(self) -> StoreStats:
        """See `Store`; compressed values count as they are kept."""
        held = await self._store.stats()
        spare = held.entries * self._envelope.overhead
        return StoreStats(entries=held.entries, size=Bytes(max(held.size - spare, 0)))

    async def _sealed(self, key: bytes, value: bytes) -> bytes:
        if len(value) < OFF_LOOP:
            return self._envelope.seal(key, value)
        return await asyncio.to_thread(self._envelope.seal, key, value)


def _sealing(
    store: SupportsPutMany, sealed: Callable[[bytes, bytes], Awaitable[bytes]]
) -> Callable[[Sequence[Put]], Awaitable[None]]:
    async def put_many(puts: Sequence[Put]) -> None:
        """See `SupportsPutMany`."""
        values = [await sealed(each.key, each.value) for each in puts]
        await store.put_many(
            [replace(each, value=value) for each, value in zip(puts, values, strict=True)]
        )

    return put_many


def _opening(
    store: SupportsFlights, envelope: Envelope
) -> Callable[..., Awaitable[bytes | Lead | Followed | None]]:
    async def board(key: bytes, flight: bytes, *, look: bool) -> bytes | Lead | Followed | None:
        """See `SupportsFlights`; a value that does not open is as good as none."""
        berth = await store.board(key, flight, look=look)
        if not isinstance(berth, bytes):
            return berth
        opened = await _opened(envelope, key, berth)
        if isinstance(opened, bytes):
            return opened
        berth = await store.board(key, flight, look=False)
        return None if isinstance(berth, bytes) else berth

    return board


async def _opened(envelope: Envelope, key: bytes, sealed: bytes) -> bytes | Reason:
    """On the loop only where both the envelope and what it claims to hold are short."""
    claimed = _HEAD.unpack_from(sealed)[-1] if len(sealed) >= _HEAD.size else 0
    if max(len(sealed), claimed) < OFF_LOOP:
        return envelope.open(key, sealed)
    return await asyncio.to_thread(envelope.open, key, sealed)


def read_keys(keys: Sequence[str], file: str) -> list[bytes]:
    """Keys of the configuration, then those of a file with one a line; raises ConfigError."""
    lines = list(keys)
    if file:
        try:
            lines += Path(file).expanduser().read_text("ascii").split()
        except (OSError, UnicodeDecodeError):
            raise ConfigError(f"{file} cannot be read as a file of sealing keys") from None
        if len(lines) == len(keys):
            raise ConfigError(f"{file} holds no sealing key")
    try:
        return [bytes.fromhex(line) for line in lines]
    except ValueError:
        raise ConfigError("a sealing key is not hexadecimal") from None


def _inflated(body: bytes, length: int) -> bytes:
    """At most one byte more than there should be, whatever a body claims."""
    try:
        return zlib.decompressobj().decompress(body, length + 1)
    except zlib.error:
        return b""


def _key_id(key: bytes) -> bytes:
    return sha256(b"askonce seal key" + key).digest()[:_KEY_ID]


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(8, "big") + part

"""A sealed block: KV bytes behind a header that says whose they are, or they are nobody's.

    header (192 bytes) | payload

The header binds the payload to the namespace, the block's full hash, its group, the epoch, the
codec and its length, and a checksum covers payload and header. That is enough against chance.
Against a hostile writer a secret is needed: then a GMAC under a nonce of its own authenticates the
payload, and an HMAC-SHA-256 the header with that tag in it. Nothing here copies the payload.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
from typing import TYPE_CHECKING, Final, Literal

import msgspec
import xxhash

from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC: Final = b"AOKV"
VERSION: Final = 1
HEADER_BYTES: Final = 192

Codec = Literal["raw", "int8", "fp8"]
"""How the payload spells the engine's bytes."""

Flaw = Literal[
    "short",
    "magic",
    "version",
    "namespace",
    "key",
    "group",
    "epoch",
    "codec",
    "length",
    "checksum",
    "seal",
]
"""Why a block is not the one that was asked for."""

FLAWS: Final[tuple[Flaw, ...]] = (
    "short",
    "magic",
    "version",
    "namespace",
    "key",
    "group",
    "epoch",
    "codec",
    "length",
    "checksum",
    "seal",
)

_CODECS: Final[Mapping[Codec, int]] = {"raw": 0, "int8": 1, "fp8": 2}
_LEAST_SECRET: Final = 16
_FIELDS: Final = struct.Struct("<4sBBHIQQ32s32s")
"""Magic, version, codec, spare, group, epoch, payload bytes, namespace, block hash."""
_CHECKSUM: Final = slice(_FIELDS.size, _FIELDS.size + 32)
_NONCE: Final = slice(_CHECKSUM.stop, _CHECKSUM.stop + 12)
_TAG: Final = slice(_NONCE.stop, _NONCE.stop + 16)
_SEAL: Final = slice(_TAG.stop, _TAG.stop + 32)

Buffer = bytes | bytearray | memoryview


class BlockKey(msgspec.Struct, frozen=True, gc=False):
    """What names a block inside a namespace."""

    hash: bytes
    """The engine's own, whole; at most 64 bytes."""
    group: int = 0
    """KV cache group of a hybrid model."""


class Sealer:
    """Seals and checks the blocks of one namespace; holds no state, so any thread may use it."""

    def __init__(self, namespace: bytes, *, secret: bytes = b"") -> None:
        """namespace: 32 bytes. secret: keeps out whoever can write to the store; 16 bytes up.

        Raises ValueError, and MissingExtra for a secret without the package that it needs.
        """
        if len(namespace) != 32:
            raise ValueError("a namespace is 32 bytes")
        self._namespace = namespace
        self._seal = _Authenticator(secret) if secret else None

    def seal(self, key: BlockKey, payload: Buffer, *, epoch: int, codec: Codec = "raw") -> bytes:
        """The header for this payload."""
        size = memoryview(payload).nbytes
        fields = self._fields(key, epoch, codec, size)
        told = fields + _checksum(fields, payload)
        if self._seal is not None:
            told += self._seal.authenticate(told, payload)
        return told.ljust(HEADER_BYTES, b"\0")

    def check(
        self, header: Buffer, payload: Buffer, key: BlockKey, *, epoch: int, codec: Codec = "raw"
    ) -> Flaw | None:
        """What is wrong with these bytes for that key; None for nothing."""
        flaw = self.check_header(header, memoryview(payload).nbytes, key, epoch=epoch, codec=codec)
        if flaw is not None:
            return flaw
        head = bytes(header)
        if head[_CHECKSUM] != _checksum(head[: _FIELDS.size], payload):
            return "checksum"
        unsealed = head[_NONCE.start :] if self._seal is None else head[_SEAL.stop :]
        if any(unsealed):
            return "seal"
        if self._seal is None:
            return None
        return None if self._seal.is_authentic(head, payload) else "seal"

    def check_header(
        self, header: Buffer, size: int, key: BlockKey, *, epoch: int, codec: Codec = "raw"
    ) -> Flaw | None:
        """What the header alone says against them; size: bytes that the payload must have."""
        head = bytes(header)
        if len(head) != HEADER_BYTES:
            return "short"
        magic, version, spelt, _, group, at, length, namespace, block = _FIELDS.unpack_from(head)
        said = (
            ("magic", magic == MAGIC),
            ("version", version == VERSION),
            ("namespace", namespace == self._namespace),
            ("key", block == _name(key.hash)),
            ("group", group == key.group),
            ("epoch", at == epoch),
            ("codec", spelt == _CODECS[codec]),
            ("length", length == size),
        )
        found: list[Flaw] = [flaw for flaw, fine in said if not fine]  # type: ignore[misc]
        return found[0] if found else None

    def _fields(self, key: BlockKey, epoch: int, codec: Codec, size: int) -> bytes:
        return _FIELDS.pack(
            MAGIC,
            VERSION,
            _CODECS[codec],
            0,
            key.group,
            epoch,
            size,
            self._namespace,
            _name(key.hash),
        )


def usable(secret: bytes) -> bytes:
    """The same, empty for none; raises ConfigError for one that is too short."""
    if 0 < len(secret) < _LEAST_SECRET:
        raise ConfigError(f"the secret of the KV store has at least {_LEAST_SECRET} bytes")
    return secret


class Told(msgspec.Struct, frozen=True):
    """What a header claims, unchecked."""

    namespace: bytes
    block: bytes
    group: int
    epoch: int
    codec: Codec | None
    payload_bytes: int
    sealed: bool
    """With a secret."""


def told_by(header: Buffer) -> Told | None:
    """What a header claims; None for what is no header of this version."""
    head = bytes(header)
    if len(head) != HEADER_BYTES:
        return None
    magic, version, spelt, _, group, epoch, size, namespace, block = _FIELDS.unpack_from(head)
    if magic != MAGIC or version != VERSION:
        return None
    codec = next((name for name, number in _CODECS.items() if number == spelt), None)
    return Told(namespace, block, group, epoch, codec, size, any(head[_NONCE.start :]))


class _Authenticator:
    """Says of header and payload that a holder of the secret wrote them."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) < _LEAST_SECRET:
            raise ValueError(f"a secret has at least {_LEAST_SECRET} bytes")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingExtra("cryptography", "kv") from None
        self._payload_key = AESGCM(_derived(secret, b"askonce kv gmac"))
        self._header_key = _derived(secret, b"askonce kv hmac")

    def authenticate(self, told: bytes, payload: Buffer) -> bytes:
        """Nonce, tag of the payload, and what authenticates both with the header so far."""
        nonce = os.urandom(12)
        tag = self._payload_key.encrypt(nonce, b"", payload)
        return nonce + tag + hmac.digest(self._header_key, told + nonce + tag, hashlib.sha256)

    def is_authentic(self, head: bytes, payload: Buffer) -> bool:
        """Whether both are as they were written."""
        told = hmac.digest(self._header_key, head[: _TAG.stop], hashlib.sha256)
        if not hmac.compare_digest(head[_SEAL], told):
            return False
        tag = self._payload_key.encrypt(head[_NONCE], b"", payload)
        return hmac.compare_digest(head[_TAG], tag)


def _derived(secret: bytes, person: bytes) -> bytes:
    return hashlib.blake2b(secret, digest_size=32, person=person).digest()


def _checksum(fields: bytes, payload: Buffer) -> bytes:
    """Of the payload, and of the fields with that."""
    body = xxhash.xxh3_128_digest(payload)
    return body + xxhash.xxh3_128_digest(fields + body)


def _name(block_hash: bytes) -> bytes:
    """32 bytes that name the block: its hash where it is so long, else a digest of it."""
    if len(block_hash) == 32:
        return block_hash
    return hashlib.blake2b(block_hash, digest_size=32, person=b"askonce kv hash").digest()

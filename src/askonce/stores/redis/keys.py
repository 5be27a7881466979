"""Names of keys in the server."""

from __future__ import annotations

import binascii


class Names:
    """All names of one namespace; `scripts` says what each is for."""

    def __init__(self, namespace: str, partitions: int) -> None:
        """partitions: hash slots that it is spread over."""
        self._partitions = partitions
        self._opening = namespace.encode()
        tags = [b"{%d}" % number for number in range(partitions)]
        self.generation = [b"%s:g%s" % (self._opening, tag) for tag in tags]
        self.state = [b"%s:s%s" % (self._opening, tag) for tag in tags]
        self.held = [b"%s:h%s" % (self._opening, tag) for tag in tags]
        self.entries = [b"%s:e%s:" % (self._opening, tag) for tag in tags]
        self._tags = [b"%s:t%s:" % (self._opening, tag) for tag in tags]
        self._doomed = [b"%s:d%s:" % (self._opening, tag) for tag in tags]
        self._leases = [b"%s:l%s:" % (self._opening, tag) for tag in tags]
        self._flights = [b"%s:f%s:" % (self._opening, tag) for tag in tags]
        self.log = b"%s:r{0}" % self._opening
        self.rules = b"%s:q{0}" % self._opening
        self.followed = tuple(f"{namespace}:{kind}{{" for kind in "egf")
        """Prefixes whose changes concern other replicas."""

    def partition(self, key: bytes) -> int:
        """Where a key belongs."""
        return binascii.crc32(key) % self._partitions if self._partitions > 1 else 0

    def book(self, partition: int) -> list[bytes]:
        """What every script begins with."""
        return [self.generation[partition], self.state[partition], self.held[partition]]

    def tag(self, partition: int, tag: bytes) -> bytes:
        """A tag's set."""
        return self._tags[partition] + tag

    def doomed(self, partition: int, tag: bytes) -> bytes:
        """A tag's set on its way out."""
        return self._doomed[partition] + tag

    def lease(self, partition: int, flight: bytes) -> bytes:
        """Who leads a flight."""
        return self._leases[partition] + flight

    def flight(self, partition: int, flight: bytes) -> bytes:
        """What a flight's other keys begin with."""
        return self._flights[partition] + flight

    def read(self, name: bytes) -> tuple[str, bytes]:
        """The kind of a followed name and what stands after the partition."""
        start = len(self._opening) + 1
        return chr(name[start]), name[start:].partition(b"}")[2][1:]

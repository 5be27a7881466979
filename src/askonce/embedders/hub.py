"""One file from a model hub, at a pinned revision, checked by digest before it is used."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection

ENDPOINT = "https://huggingface.co"
MAX_BYTES = 512 * 1024 * 1024
_SPEC = re.compile(
    r"(?P<owner>[\w.-]+)/(?P<name>[\w.-]+)@(?P<revision>[0-9a-f]{40})(#(?P<digest>[0-9a-f]{64}))?"
)


class HubFile(msgspec.Struct, frozen=True):
    """A file of a repository at one commit."""

    repository: str
    revision: str
    """The commit: 40 hexadecimal digits."""
    path: str
    digest: str = ""
    """The SHA-256 its bytes must have; empty means that of a known model."""

    @classmethod
    def parse(cls, spec: str, path: str) -> HubFile:
        """Read `owner/name@commit`, or `owner/name@commit#sha256` for a file not in the table."""
        match = _SPEC.fullmatch(spec)
        if match is None:
            raise ConfigError(f"semantic.hub is not owner/name@<40 hex digits>: {spec!r}")
        repository = f"{match['owner']}/{match['name']}"
        return cls(repository, match["revision"], path, match["digest"] or "")

    @property
    def file_name(self) -> str:
        """A name of its own for every repository, commit and path."""
        named = f"{self.repository}@{self.revision}/{self.path}"
        return f"{hashlib.sha256(named.encode()).hexdigest()[:16]}.onnx"

    def url(self, endpoint: str) -> str:
        """Where the hub serves it."""
        return f"{endpoint.rstrip('/')}/{self.repository}/resolve/{self.revision}/{self.path}"


def fetch(wanted: HubFile, target: Path, accepted: Collection[str]) -> None:
    """Download to target, which appears whole or not at all; raises ConfigError.

    Blocking. `HF_ENDPOINT` names another hub; proxies come from the environment.
    """
    url = wanted.url(os.environ.get("HF_ENDPOINT") or ENDPOINT)
    if not url.startswith(("https://", "http://")):
        raise ConfigError(f"not a web address: {url}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = _download(url, target.parent)
    except (OSError, http.client.HTTPException) as error:
        raise ConfigError(
            f"{url} cannot be fetched ({error}); give the file's path as semantic.model instead"
        ) from error
    digest = hashlib.sha256(part.read_bytes()).hexdigest()
    if digest not in accepted:
        part.unlink()
        raise ConfigError(f"{url} has the SHA-256 {digest}, which is not the one expected")
    part.replace(target)


def _download(url: str, folder: Path) -> Path:
    with (
        urllib.request.urlopen(url, timeout=30) as answer,  # noqa: S310 - its scheme was checked
        tempfile.NamedTemporaryFile(dir=folder, suffix=".part", delete=False) as file,
    ):
        part = Path(file.name)
        try:
            left = MAX_BYTES
            while chunk := answer.read(1 << 20):
                left -= len(chunk)
                if left < 0:
                    raise OSError(f"larger than {MAX_BYTES} bytes")  # noqa: TRY301 - part is removed
                file.write(chunk)
        except BaseException:
            part.unlink()
            raise
    return part

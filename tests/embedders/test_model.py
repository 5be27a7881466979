"""The embedding model is found, and is the one meant."""

from __future__ import annotations

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest

from askonce.embedders import model
from askonce.embedders.hub import HubFile
from askonce.embedders.model import file_digest, locate, tokenizer_beside
from askonce.embedders.wordpiece import shipped_vocabulary
from askonce.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

REVISION = "c9745ed1d9f207416be6d2e6f8de32d1f16199bf"
SPEC = f"some/model@{REVISION}"
BODY = b"onnx bytes" * 100
DIGEST = hashlib.sha256(BODY).hexdigest()


class Hub(BaseHTTPRequestHandler):
    """Serves one file at one revision and counts how often."""

    served = 0

    def do_GET(self) -> None:
        """Answer with the file, or half of it, or 404."""
        if self.path == f"/some/model/resolve/{REVISION}/onnx/model.onnx":
            type(self).served += 1
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY)
        elif self.path.startswith("/half/"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(BODY)))
            self.end_headers()
            self.wfile.write(BODY[:10])
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Hub]]:
    """A hub on this machine, and no package installed."""
    server = HTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setattr(model, "PACKAGE", "no-such-package")
    Hub.served = 0
    yield Hub
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_installed_package_is_found_and_known(tmp_path: Path) -> None:
    """With nothing configured the package's file is used."""
    found = locate("", "", tmp_path)
    assert found.digest in model.KNOWN
    assert found.path.name == "model.onnx"


def test_a_changed_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A packaged file whose digest is not in the table is not loaded."""
    monkeypatch.setattr(model, "KNOWN", {})
    with pytest.raises(ConfigError, match="not a known model"):
        locate("", "", tmp_path)


def test_nothing_to_use_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without path, package and hub the error says what to install."""
    monkeypatch.setattr(model, "PACKAGE", "no-such-package")
    with pytest.raises(MissingExtra, match=r"askonce\[semantic\]"):
        locate("", "", tmp_path)


@pytest.mark.parametrize("given", ["file", "folder"])
def test_a_path_is_used_whatever_its_digest(tmp_path: Path, given: str) -> None:
    """A model given by path, as file or folder, is the operator's own choice."""
    file = tmp_path / "model.onnx"
    file.write_bytes(BODY)
    found = locate(str(file if given == "file" else tmp_path), "", tmp_path)
    assert (found.path, found.digest) == (file, DIGEST)


def test_a_path_without_a_model_is_a_config_error(tmp_path: Path) -> None:
    """An absent file and an empty folder are named in the error."""
    for wrong in (tmp_path, tmp_path / "absent.onnx"):
        with pytest.raises(ConfigError, match="no embedding model"):
            locate(str(wrong), "", tmp_path)


def test_a_folder_brings_its_tokenizer(tmp_path: Path) -> None:
    """A vocabulary beside the model is used, and without one the shipped vocabulary."""
    (tmp_path / "model.onnx").write_bytes(BODY)
    shipped = tokenizer_beside(str(tmp_path), 256)
    own = shipped_vocabulary().replace(b"[unused0]", b"askonce", 1)
    (tmp_path / "vocab.txt").write_bytes(own)
    beside = tokenizer_beside(str(tmp_path), 256)
    assert shipped.encode("askonce") == tokenizer_beside("", 256).encode("askonce")
    assert beside.encode("askonce") == [101, 1, 102]
    (tmp_path / "tokenizer.json").write_text(beside._tokenizer.to_str())
    assert tokenizer_beside(str(tmp_path), 256).encode("askonce") == [101, 1, 102]


def test_a_hub_file_is_fetched_once(tmp_path: Path, hub: type[Hub]) -> None:
    """The first start downloads and checks it, the second finds it."""
    for _ in range(2):
        found = locate("", f"{SPEC}#{DIGEST}", tmp_path)
        assert found.path.read_bytes() == BODY
    assert hub.served == 1


def test_a_damaged_copy_is_fetched_again(tmp_path: Path, hub: type[Hub]) -> None:
    """A kept file that is not what it was is replaced."""
    found = locate("", f"{SPEC}#{DIGEST}", tmp_path)
    found.path.write_bytes(b"damaged")
    assert file_digest(locate("", f"{SPEC}#{DIGEST}", tmp_path).path) == DIGEST
    assert hub.served == 2


@pytest.mark.parametrize("spec", [SPEC, f"{SPEC}#{'0' * 64}"])
def test_a_hub_file_of_another_digest_is_refused(tmp_path: Path, hub: type[Hub], spec: str) -> None:
    """Bytes that are neither a known model's nor the ones asked for are thrown away."""
    with pytest.raises(ConfigError, match="not the one expected"):
        locate("", spec, tmp_path)
    assert hub.served == 1
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("repository", ["no/such", "half/sent"])
def test_a_file_that_cannot_be_fetched_is_a_config_error(
    tmp_path: Path, hub: type[Hub], repository: str
) -> None:
    """An absent file and a broken transfer say which address failed, and leave nothing."""
    with pytest.raises(ConfigError, match=r"cannot be fetched|not the one expected"):
        locate("", f"{repository}@{REVISION}", tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "file:///etc"])
def test_an_unreachable_hub_is_a_config_error(
    tmp_path: Path, hub: type[Hub], monkeypatch: pytest.MonkeyPatch, endpoint: str
) -> None:
    """A hub that does not answer, or is no web address, is named in the error."""
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(ConfigError, match=endpoint):
        locate("", SPEC, tmp_path)


@pytest.mark.parametrize("spec", ["model", "a/b", "a/b@main", f"a/b@{REVISION[:-1]}", f"{SPEC}#12"])
def test_a_revision_must_be_pinned(spec: str) -> None:
    """Anything but owner/name@commit is refused before the network is asked."""
    with pytest.raises(ConfigError, match="40 hex"):
        HubFile.parse(spec, "onnx/model.onnx")

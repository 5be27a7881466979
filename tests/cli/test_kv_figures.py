"""`askonce kv stat --metrics` adds up what engines say of the shared tier."""

from __future__ import annotations

import http.server
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from askonce.cli.kv_figures import fleet_table, page_at
from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = """
# TYPE askonce_kv_prompt_tokens_total counter
askonce_kv_prompt_tokens_total{engine="0",source="store"} 1000
askonce_kv_prompt_tokens_total{engine="0",source="computed"} 500
# TYPE askonce_kv_audited_blocks_total counter
askonce_kv_audited_blocks_total{engine="0",verdict="agrees"} 99
askonce_kv_audited_blocks_total{engine="0",verdict="disagrees"} 1
askonce_kv_audited_blocks_total{engine="0",verdict="undone"} 2
# TYPE askonce_kv_audit_error_total counter
askonce_kv_audit_error_total{engine="0"} 2
# TYPE askonce_kv_audit_error_max gauge
askonce_kv_audit_error_max{engine="0"} 1.5
# TYPE askonce_kv_forgone_seconds_total counter
askonce_kv_forgone_seconds_total{engine="0"} 3.25
# TYPE vllm:other counter
vllm:other_total 7
"""


@pytest.fixture
def url() -> Iterator[str]:
    """Of a server whose every page is this one, but for one that is nothing like it."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"other 1\n" if self.path == "/other" else PAGE.encode())

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_two_engines_are_added_up() -> None:
    """Counts by their sum, the largest error by the largest."""
    lines = list(fleet_table([PAGE, PAGE.replace("} 1.5", "} 0.5")]))
    assert "prompt tokens, store     2000" in lines
    assert "seconds forgone to audits 6.5" in lines
    assert "blocks audited           200, and 4 that could not be" in lines
    assert "blocks that disagree     2, 1.00%" in lines
    assert lines[-1] == "error of a block         0.02 on average, 1.5 at most"


def test_without_audits_there_is_no_rate() -> None:
    """Nought of nought is not told."""
    assert list(fleet_table([""]))[-1].startswith("blocks audited           0,")


def test_a_page_is_read_or_told_to_be_none(url: str) -> None:
    """A place without an engine, and an engine without the tier."""
    assert page_at(f"{url}/metrics") == PAGE
    with pytest.raises(ConfigError, match="nothing about"):
        page_at(f"{url}/other")
    with pytest.raises(ConfigError, match="cannot be read"):
        page_at("http://127.0.0.1:1/metrics")


def test_what_does_not_speak_http_is_an_error_that_says_so() -> None:
    """As when the store's own port is given."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            wire, _ = server.accept()
            with wire:
                wire.recv(4096)
                wire.sendall(b"-ERR unknown command 'GET'\r\n")

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(ConfigError, match="cannot be read"):
            page_at(f"http://127.0.0.1:{server.getsockname()[1]}/metrics")


def test_a_page_that_is_not_in_the_format_is_an_error_that_says_so() -> None:
    """As a page about these metrics, instead of one with them."""
    with pytest.raises(ConfigError, match="cannot be read"):
        list(fleet_table(["askonce_kv_saved_seconds_total of this engine"]))

"""What is written down names no credential."""

from __future__ import annotations

import pytest

from askonce.telemetry.secrets import query_without_secrets, without_secrets


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("", ""),
        ("api-version=1&x", "api-version=1&x"),
        ("api-version=1&api-key=s3cret", "api-version=1&api-key=***"),
        ("Subscription-Key=a=b&TOKEN=c", "Subscription-Key=***&TOKEN=***"),
    ],
)
def test_a_query_keeps_all_but_credentials(query: str, told: str) -> None:
    """By the members' names."""
    assert query_without_secrets(query) == told


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"model": "m" }', b'{"model": "m" }'),
        (b'["headers"]', b'["headers"]'),
        (b'{"api_key": "s", "n": 1.0}', b'{"api_key":"***","n":1.0}'),
        (b'{"extra_headers": {"a": "s"}}', b'{"extra_headers":"***"}'),
        (
            b'{"tools": [{"type": "mcp", "authorization": "s", "headers": {"a": "s"}}]}',
            b'{"tools":[{"type":"mcp","authorization":"***","headers":"***"}]}',
        ),
        (
            b'{"mcp_servers": [{"authorization_token": "s"}]}',
            b'{"mcp_servers":[{"authorization_token":"***"}]}',
        ),
        (b'{"tools": null, "headers": 1}', b'{"tools":null,"headers":"***"}'),
        (
            b'{"tools": [{"parameters": {"headers": 1}}]}',
            b'{"tools":[{"parameters":{"headers": 1}}]}',
        ),
    ],
)
def test_a_body_keeps_all_but_credentials(body: bytes, told: bytes) -> None:
    """Where providers have them; a prompt, and a function's own members, stay as they are."""
    assert without_secrets(body) == told

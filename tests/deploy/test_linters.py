"""What is in `deploy/` passes the linters of its parts; no image is built and none started."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.servers.process import LAID, binary

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent

pytestmark = [pytest.mark.servers, pytest.mark.slow]


def run(*command: str | Path, at: Path = ROOT) -> None:
    """Run a linter; what it complains about fails the test."""
    libraries = LAID / "debian" / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    told = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert not told.returncode, told.stdout + told.stderr


def test_yaml_is_well_formed() -> None:
    """Every YAML file is well formed and laid out alike (yamllint)."""
    run(BIN / "yamllint", "--strict", "deploy")


def test_the_compose_file_fits_its_specification() -> None:
    """The compose file fits the schema of the compose specification (check-jsonschema)."""
    check = (BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    run(*check, DEPLOY / "compose.yaml")


def test_the_schema_of_the_charts_values_is_a_schema() -> None:
    """The schema of the chart's values fits JSON Schema's own (check-jsonschema)."""
    schema = DEPLOY / "helm" / "askonce" / "values.schema.json"
    run(BIN / "check-jsonschema", "--check-metaschema", schema)


def test_the_dockerfile_is_free_of_known_mistakes() -> None:
    """Dockerfile and the shell in it pass hadolint."""
    run(binary("hadolint", "bin/hadolint"), DEPLOY / "Dockerfile")


def test_alerts_do_what_they_say() -> None:
    """Configuration, rules and alerts are taken by Prometheus, and alert when they should."""
    promtool, folder = binary("promtool", "debian/usr/bin/promtool"), DEPLOY / "prometheus"
    run(promtool, "check", "config", "prometheus.yaml", at=folder)
    run(promtool, "test", "rules", "tests.yaml", at=folder)


def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    """Every expression of the dashboard parses once its variables are filled in."""
    promtool = binary("promtool", "debian/usr/bin/promtool")
    dashboard = json.loads((DEPLOY / "grafana" / "askonce.json").read_text())
    asked = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    filled = [re.sub(r"\$__(rate_interval|range)", "5m", each) for each in asked]
    rules = [{"record": f"panel:{place}", "expr": each} for place, each in enumerate(filled)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    run(promtool, "check", "rules", file)


def test_haproxy_takes_its_configuration() -> None:
    """The balancer of the compose file starts with its configuration (haproxy -c)."""
    run(binary("haproxy", "debian/usr/sbin/haproxy"), "-c", "-f", DEPLOY / "haproxy.cfg")

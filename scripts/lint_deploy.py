"""Check what is in `deploy/` by the linters of its parts; says which did what.

    python scripts/lint_deploy.py

yamllint, the compose specification's schema, hadolint, `helm lint` and rendering by Helm's own
library for each file of values in `deploy/helm/askonce/ci`, Kubernetes' schemas, AskOnce's own
configuration, promtool with unit tests of the alerts, and HAProxy. A tool that cannot be had is
named; with REQUIRE_TEST_SERVERS set that is a failure.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from askonce.settings import load_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parent.parent
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "askonce"
BIN = Path(sys.executable).parent
LAID = Path(os.environ.get("TEST_SERVERS", ROOT / ".venv" / "servers"))
KUBERNETES = ("1.31", "1.34")
"""Versions whose schemas everything rendered must fit."""
Manifest = dict[str, Any]


class Missing(Exception):
    """A tool is not here."""


def tool(*places: str) -> Path:
    """A program that `make servers` lays."""
    for place in places:
        if (found := LAID / place).exists():
            found.chmod(found.stat().st_mode | 0o111)
            return found
    raise Missing(f"{Path(places[0]).name} is not there: run `make servers`")


def run(*command: str | Path, at: Path = ROOT) -> None:
    """Run a linter, its output only if it complains; raises AssertionError with it."""
    libraries = LAID / "debian" / "usr" / "lib" / f"{os.uname().machine}-linux-gnu"
    told = subprocess.run(
        [str(part) for part in command],
        cwd=at,
        env={**os.environ, "LD_LIBRARY_PATH": str(libraries)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not told.returncode, told.stdout + told.stderr


def yaml_files() -> str:
    """Every YAML file is well formed and laid out alike."""
    run(BIN / "yamllint", "--strict", "deploy")
    return "yamllint"


def compose() -> str:
    """The compose file fits the compose specification."""
    check = (BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec")
    run(*check, DEPLOY / "compose.yaml")
    return "the compose specification's schema (by check-jsonschema); never started here"


def dockerfile() -> str:
    """The Dockerfile is free of known mistakes."""
    run(tool("bin/hadolint"), DEPLOY / "Dockerfile")
    return "hadolint; never built here"


def schema_of_values() -> str:
    """The schema of the chart's values is a schema."""
    run(BIN / "check-jsonschema", "--check-metaschema", CHART / "values.schema.json")
    return "JSON Schema's own schema"


def chart() -> str:
    """The chart renders for each file of values, into what Kubernetes takes and AskOnce reads."""
    helm = _helm()
    for path in sorted((CHART / "ci").glob("*.yaml")):
        values = yaml.safe_load(path.read_text())
        told = helm.lint(CHART, values, strict=True)
        assert not told["errors"], f"{path.name}: {told['errors']}"
        manifests = list(render(helm, values))
        for manifest in manifests:
            _fits_kubernetes(manifest)
        _is_restricted(manifests)
        _is_read_by_askonce(manifests)
    _refuses_what_would_go_wrong(helm)
    return (
        f"helm lint and rendering by Helm's library {helm.helm_sdk_version()}, "
        f"schemas of Kubernetes {', '.join(KUBERNETES)}, AskOnce's configuration; never installed"
    )


def _helm() -> Any:  # noqa: ANN401 - a module without types, laid outside of the environment
    sys.path.append(str(LAID))
    try:
        return importlib.import_module("helm_python")
    except ImportError:
        raise Missing("helm-python-sdk is not there: run `make servers`") from None


def render(helm: Any, values: Manifest) -> Iterator[Manifest]:  # noqa: ANN401 - as above
    """What `helm install` would hand to Kubernetes."""
    with helm.Chart.load(CHART) as loaded:
        for name, text in loaded.render(values, name="demo", namespace="inference").items():
            if name.endswith(".yaml"):
                yield from filter(None, yaml.safe_load_all(text))


def _fits_kubernetes(manifest: Manifest) -> None:
    validator = importlib.import_module("kubernetes_validate")
    if manifest["kind"] == "ServiceMonitor":
        return
    for version in KUBERNETES:
        validator.validate(manifest, version, strict=True)


def _is_restricted(manifests: list[Manifest]) -> None:
    """All pods keep to the restricted level of Pod Security, and say what they need."""
    for manifest in manifests:
        pod = manifest["spec"].get("template", {}).get("spec") if "spec" in manifest else None
        if pod is None:
            continue
        assert pod["securityContext"]["runAsNonRoot"], manifest["kind"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"]
            assert context["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def _is_read_by_askonce(manifests: list[Manifest]) -> None:
    """File and variables of the rendered pod are a configuration."""
    (text,) = (each["data"]["askonce.toml"] for each in manifests if each["kind"] == "ConfigMap")
    (pod,) = (each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "Deployment")
    variables = {each["name"]: each for each in pod["containers"][0]["env"]}
    assert len(variables) == len(pod["containers"][0]["env"]), "a variable is there twice"
    environ = {name: each.get("value", _secret(name)) for name, each in variables.items()}
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        config = load_config(Path(file.name), environ)
    assert config.upstream
    assert config.tenants.secret


def _secret(variable: str) -> str:
    return '{"operator": "0123456789abcdef"}' if variable.endswith("__TOKENS") else "from-a-secret"


def _refuses_what_would_go_wrong(helm: Any) -> None:  # noqa: ANN401 - as above
    """Values under which replicas would share nothing, or secrets would be in plain sight."""
    engine = '[[upstream]]\nurl = "http://x/v1"\n'
    for values, because in (
        ({"config": engine + 'api_key = "sk-1"\n'}, "config holds a secret"),
        ({"secretEnv": {"ASKONCE_TENANTS__SECRET": None}}, "share nothing"),
        ({"secretEnv": {"ASKONCE_EXACT__STORE": None}}, "need a store"),
        ({"admin": {"enabled": True}}, "ASKONCE_ADMIN__TOKENS"),
        ({"shutdown": {"graceSeconds": 20, "preStopSeconds": 5}}, "cut off"),
        ({"replicas": 0}, "minimum"),
        ({"no_such_value": 1}, "additional"),
    ):
        try:
            list(render(helm, values))
        except helm.HelmError as error:
            assert because in str(error), f"{values}: {error}"
        else:
            raise AssertionError(f"the chart takes {values}")


def prometheus() -> str:
    """Rules and alerts parse and do what their tests say; so do the dashboard's expressions."""
    promtool, folder = tool("debian/usr/bin/promtool"), DEPLOY / "prometheus"
    run(promtool, "check", "config", "prometheus.yaml", at=folder)
    run(promtool, "test", "rules", "tests.yaml", at=folder)
    dashboard = json.loads((DEPLOY / "grafana" / "askonce.json").read_text())
    asked = [each["expr"] for panel in dashboard["panels"] for each in panel["targets"]]
    filled = [re.sub(r"\$__(rate_interval|range)", "5m", each) for each in asked]
    rules = [{"record": f"panel:{place}", "expr": each} for place, each in enumerate(filled)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        file.flush()
        run(promtool, "check", "rules", file.name)
    return f"promtool, with tests of the alerts; {len(rules)} expressions of the dashboard"


def balancer() -> str:
    """HAProxy takes its configuration."""
    run(tool("debian/usr/sbin/haproxy"), "-c", "-f", DEPLOY / "haproxy.cfg")
    return "haproxy -c"


CHECKS: tuple[Callable[[], str], ...] = (
    yaml_files,
    compose,
    dockerfile,
    schema_of_values,
    chart,
    prometheus,
    balancer,
)


def main() -> int:
    """Run all; the exit code."""
    failed = 0
    for check in CHECKS:
        name = check.__name__.replace("_", " ")
        try:
            print(f"{name}: {check()}", flush=True)
        except Missing as missing:
            failed += bool(os.environ.get("REQUIRE_TEST_SERVERS"))
            print(f"{name}: NOT CHECKED, {missing}", flush=True)
        except Exception as error:  # noqa: BLE001 - whatever a linter raises is its complaint
            failed += 1
            print(f"{name}: FAILED\n{error}", flush=True)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())

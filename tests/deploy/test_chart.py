"""The Helm chart, rendered by Helm's own library; nothing is installed into a cluster here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from tests.servers.process import LAID, missing

from askonce.settings import load_config

CHART = Path(__file__).resolve().parents[2] / "deploy" / "helm" / "askonce"
KUBERNETES = ("1.31", "1.34")
"""Versions whose schemas everything rendered must fit."""
FOREIGN = {"ServiceMonitor"}
"""Kinds that are not Kubernetes' own."""
ENGINE = '[[upstream]]\nurl = "http://x/v1"\n'

pytestmark = [pytest.mark.servers, pytest.mark.slow]

Manifest = dict[str, Any]


@pytest.fixture
def helm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Helm's library, from where `make servers` lays it."""
    monkeypatch.setattr(sys, "path", [*sys.path, str(LAID)])
    try:
        import helm_python
    except ImportError:
        missing("there is no helm-python-sdk: run `make servers`")
    return helm_python


@pytest.fixture(params=sorted((CHART / "ci").glob("*.yaml")), ids=lambda path: path.stem)
def values(request: pytest.FixtureRequest) -> Manifest:
    """One way to use the chart."""
    read: Manifest = yaml.safe_load(request.param.read_text())
    return read


def rendered(helm: Any, values: Manifest) -> list[Manifest]:
    """What `helm install` would hand to Kubernetes."""
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values, name="demo", namespace="inference")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [each for text in texts for each in yaml.safe_load_all(text) if each]


def pods(manifests: list[Manifest]) -> list[Manifest]:
    """The pods' specifications."""
    specs = [each.get("spec", {}).get("template", {}).get("spec") for each in manifests]
    return [spec for spec in specs if spec]


def test_helm_finds_nothing_to_complain_about(helm: Any, values: Manifest) -> None:
    """`helm lint --strict` passes."""
    assert helm.lint(CHART, values, strict=True)["errors"] == []


def test_kubernetes_takes_what_is_rendered(helm: Any, values: Manifest) -> None:
    """Each manifest fits Kubernetes' schemas, with no field that these do not know."""
    for manifest in rendered(helm, values):
        for version in KUBERNETES:
            if manifest["kind"] not in FOREIGN:
                kubernetes_validate.validate(manifest, version, strict=True)


def test_pods_are_restricted(helm: Any, values: Manifest) -> None:
    """All pods keep to the restricted level of Pod Security and bound their memory."""
    for pod in pods(rendered(helm, values)):
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container["resources"]["limits"]


def test_askonce_reads_what_the_pod_hands_over(helm: Any, values: Manifest, tmp_path: Path) -> None:
    """File and variables of a pod are a configuration, with a store that replicas share."""
    manifests = rendered(helm, values)
    (settings,) = (each["data"] for each in manifests if each["kind"] == "ConfigMap")
    file = tmp_path / "askonce.toml"
    file.write_text(settings["askonce.toml"])
    gateway = next(pod for pod in pods(manifests) if pod["containers"][0]["name"] == "askonce")
    variables = gateway["containers"][0]["env"]
    environ = {each["name"]: each.get("value") or secret(each["name"]) for each in variables}
    assert len(environ) == len(variables)
    config = load_config(file, environ)
    assert config.server.host == "0.0.0.0"
    assert config.exact.store.startswith("valkey://")


def secret(variable: str) -> str:
    """What a Secret might hold for it."""
    special = {
        "ASKONCE_ADMIN__TOKENS": '{"operator": "0123456789abcdef"}',
        "ASKONCE_EXACT__STORE": "valkey://user:password@cache",
    }
    return special.get(variable, "from-a-secret")


@pytest.mark.parametrize(
    ("values", "because"),
    [
        ({"config": ENGINE + 'api_key = "sk-1"\n'}, "config holds a secret"),
        ({"secretEnv": {"ASKONCE_TENANTS__SECRET": None}}, "share nothing"),
        ({"secretEnv": {"ASKONCE_EXACT__STORE": None}}, "need a store"),
        ({"admin": {"enabled": True}}, "ASKONCE_ADMIN__TOKENS"),
        ({"shutdown": {"graceSeconds": 20, "preStopSeconds": 5}}, "cut off"),
        ({"replicas": 0}, "minimum"),
        ({"no_such_value": 1}, "additional"),
    ],
)
def test_what_would_go_wrong_is_refused(helm: Any, values: Manifest, because: str) -> None:
    """Values that would part the replicas, cut answers off or show secrets render nothing."""
    with pytest.raises(helm.HelmError, match=because):
        rendered(helm, values)

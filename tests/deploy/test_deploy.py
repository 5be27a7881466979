"""What is deployed names things by the names that AskOnce has for them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from askonce.settings import load_config
from askonce.telemetry.prometheus import METRICS

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
SECRET = "0123456789abcdef"
MONITORING = [*(DEPLOY / "prometheus").glob("*.yaml"), DEPLOY / "grafana" / "askonce.json"]


def series() -> set[str]:
    """Every name under which a metric can be asked for."""
    kinds = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}
    return {metric.name + end for metric in METRICS for end in kinds[metric.kind]}


@pytest.mark.parametrize("path", MONITORING, ids=lambda path: path.name)
def test_every_metric_asked_for_exists(path: Path) -> None:
    """Rules, alerts and dashboard ask for metrics that AskOnce has."""
    asked = set(re.findall(r"(?<![:\w])askonce_\w+(?!\w*:)", path.read_text()))
    assert asked <= series()


@pytest.mark.parametrize("path", MONITORING, ids=lambda path: path.name)
def test_every_label_asked_for_exists(path: Path) -> None:
    """A selector names only labels of its metric, or those that Prometheus adds."""
    text = path.read_text().replace('\\"', '"')
    labels = {metric.name: {*metric.labels, "job", "instance"} for metric in METRICS}
    for name, selector in re.findall(r"(?<![:\w])(askonce_\w+)\{([^}]*)\}", text):
        metric = re.sub(r"_(bucket|count|sum)$", "", name)
        assert set(re.findall(r"(\w+)(?:=~?|!=)", selector)) <= labels[metric], name


def test_recorded_series_are_recorded() -> None:
    """Alerts ask for recorded series that the rules record."""
    recorded = set(re.findall(r"record: (\S+)", (DEPLOY / "prometheus" / "rules.yaml").read_text()))
    alerts = (DEPLOY / "prometheus" / "alerts.yaml").read_text()
    assert set(re.findall(r"\bjob\w*:askonce\w+:\w+", alerts)) <= recorded


def test_the_compose_file_configures_askonce() -> None:
    """File and variables of the compose file are a configuration that shares all there is."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    given = compose["services"]["askonce"]["environment"]
    given["ASKONCE_UPSTREAM_URL"] = "http://engine/v1"
    environ = {name: re.sub(r"\$\{\w+:[^}]*\}", SECRET, value) for name, value in given.items()}
    config = load_config(DEPLOY / "askonce.toml", environ)
    assert config.exact.store.startswith("valkey://")
    assert config.semantic.index.startswith("postgresql://")
    assert config.admin.tokens == {"operator": SECRET}


def test_the_example_of_the_environment_is_whole() -> None:
    """Every variable that the compose file cannot do without is in the example, and is empty."""
    wanted = re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text())
    example = (DEPLOY / ".env.example").read_text()
    assert set(wanted) <= set(re.findall(r"^(\w+)=", example, re.MULTILINE))
    assert re.findall(r"^\w*(?:SECRET|TOKEN|PASSWORD|KEY)=(.+)", example, re.MULTILINE) == []


def test_the_image_can_be_built_from_its_pins() -> None:
    """The extras that the image takes by default exist, and all they need is pinned with hashes."""
    (chosen,) = re.findall(r'ARG EXTRAS="([^"]+)"', (DEPLOY / "Dockerfile").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(each for name in chosen.split() for each in extras[name])]
    names = {re.split(r"[\[<>=~!; ]", each, maxsplit=1)[0] for each in needed}
    pins = (ROOT / "requirements" / "image.txt").read_text()
    assert names <= set(re.findall(r"^([\w.-]+)==", pins, re.MULTILINE))


def test_the_chart_has_the_version_of_askonce() -> None:
    """The chart installs the release that it is part of."""
    chart = yaml.safe_load((DEPLOY / "helm" / "askonce" / "Chart.yaml").read_text())
    init = (ROOT / "src" / "askonce" / "__init__.py").read_text()
    assert f'__version__ = "{chart["appVersion"]}"' in init

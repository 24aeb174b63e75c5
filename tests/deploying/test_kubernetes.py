"""The manifests of docs/how-to/run-workers.md: they are YAML, and their numbers and names fit each other."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploying.places import DEPLOY
from tests.deploying.test_container import last

yaml = pytest.importorskip("yaml")


def manifests() -> dict[str, Any]:
    text = (DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8")
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def pod() -> Any:  # noqa: ANN401 - what YAML has
    return manifests()["Deployment"]["spec"]["template"]["spec"]


def test_a_pod_may_take_longer_than_its_handlers_have() -> None:
    (container,) = pod()["containers"]
    drain = int(container["args"][container["args"].index("--drain") + 1])

    assert pod()["terminationGracePeriodSeconds"] > drain + 10


def test_probes_ask_the_port_of_the_metrics() -> None:
    (container,) = pod()["containers"]
    (port,) = container["ports"]
    probes = {
        name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")
    }

    assert container["args"][container["args"].index("--metrics") + 1].endswith(f":{port['containerPort']}")
    assert {probe["port"] for probe in probes.values()} == {port["name"]}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/readyz",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }


def test_names_and_users_fit() -> None:
    found = manifests()
    labels = found["Deployment"]["spec"]["template"]["metadata"]["labels"]

    assert found["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert found["ScaledObject"]["spec"]["scaleTargetRef"]["name"] == found["Deployment"]["metadata"]["name"]
    assert pod()["securityContext"]["runAsUser"] == int(last("USER"))
    images = {
        each["image"]
        for kind in ("Job", "Deployment")
        for each in found[kind]["spec"]["template"]["spec"]["containers"]
    }
    assert len(images) == 1

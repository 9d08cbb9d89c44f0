"""The alerts, the dashboard and the page name the series that processes show."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.core import Metric

from minova import metrics
from minova.health.gauges import cloud_families, queue_families

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "etc" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "etc" / "grafana" / "minova.json"
PAGE = ROOT / "docs" / "operators" / "metrics.md"
ENDINGS = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("_total",), "gauge": ("",)}


def shown(families: Iterable[Metric]) -> dict[str, set[str]]:
    """Returns the labels of each series."""
    labels_by_series = {}
    for family in families:
        labels = {name for sample in family.samples for name in sample.labels}
        for ending in ENDINGS[family.type]:
            labels_by_series[family.name + ending] = labels
    return {name: labels for name, labels in labels_by_series.items() if name.startswith("minova_")}


def all_shown() -> set[str]:
    return {*shown(metrics.REGISTRY.collect()), *shown([*cloud_families(None), *queue_families({})])}


def rules() -> list[dict[str, object]]:
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    rules: list[dict[str, object]] = group["rules"]
    return rules


def named_in(text: str) -> set[str]:
    return set(re.findall(r"\bminova_\w+", text))


def test_alerts_name_series_that_are_shown() -> None:
    expressions = " ".join(str(rule["expr"]) for rule in rules())
    assert named_in(expressions) - all_shown() == set()
    assert len(named_in(expressions)) > 10


def test_the_dashboard_names_series_that_are_shown() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    expressions += [str(variable["query"]) for variable in dashboard["templating"]["list"]]
    assert named_in(" ".join(expressions)) - all_shown() == set()
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(ids) == len(set(ids))


def test_the_page_describes_each_gauge_of_the_cloud_with_its_labels() -> None:
    rows = dict(re.findall(r"^\| `(minova_\w+)` \|(.*)$", PAGE.read_text(), re.MULTILINE))
    for family in [*cloud_families(None), *queue_families({})]:
        described = rows[family.name]
        assert "the same" in described or all(f"`{label}`" in described for label in family._labelnames), family.name


def test_each_alert_leads_to_a_section_of_a_page() -> None:
    for rule in rules():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        page, _, section = annotations["page"].partition("#")
        headings = [line.lstrip("# ") for line in (ROOT / page).read_text().splitlines() if line.startswith("#")]
        assert not section or section in [heading.lower().replace(" ", "-") for heading in headings], rule["alert"]


def test_bug_alerts_of_certificates_led_to_a_page_that_says_nothing_of_them() -> None:
    pages = {rule["annotations"]["page"] for rule in rules() if str(rule["alert"]).startswith("MinovaCertificate")}  # type: ignore[index]
    assert pages == {"docs/operators/configure.md#certificates"}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="tools/setup packages puts promtool into build")
def test_promtool_accepts_the_alerts_and_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    replaced = [expression.replace("$host", ".*") for expression in expressions]
    recorded = [{"record": f"minova:panel:{number}", "expr": expr} for number, expr in enumerate(replaced)]
    panels = tmp_path / "panels.yml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    done = subprocess.run(
        ["promtool", "check", "rules", str(ALERTS), str(panels)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

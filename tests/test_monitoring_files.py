"""The Grafana board and the alert rules ask for metrics that exist, and each alert says what to do."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.metrics import SERIES

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).resolve().parent.parent
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((ROOT / "deploy" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana.json").read_text())
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [rule["expr"] for rule in RULES] + [target["expr"] for panel in PANELS for target in panel["targets"]]
LABELS = {"job", "le"}


def test_board_and_rules_query_existing_metrics() -> None:
    asked = {name for one in EXPRESSIONS for name in re.findall(r"\bchatmemory_\w+", one)}
    assert asked <= set(SERIES)
    assert {re.sub("_(sum|count|bucket|total)$", "", name) for name in SERIES} == {
        re.sub("_(sum|count|bucket|total)$", "", name) for name in asked
    }, "each metric is on the board or in a rule"
    for expression in EXPRESSIONS:
        assert expression.count("(") == expression.count(")")
        for name, labels in re.findall(r"(chatmemory_\w+)\{([^}]*)\}", expression):
            assert set(re.findall(r"(\w+)(?:=~|!~|!=|=)", labels)) <= SERIES[name] | LABELS, expression


def test_each_alert_has_an_action() -> None:
    for rule in RULES:
        assert {*rule["annotations"]} == {"summary", "action"}
        assert rule["labels"]["severity"] in ("critical", "warning")
    page = (ROOT / "docs" / "monitoring.md").read_text()
    assert len(RULES) == 10
    assert "the ten alerts" in page
    assert "://" not in (ROOT / "deploy" / "alerts.yaml").read_text()


def test_the_boards_panels_have_a_place_each() -> None:
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in BOARD["panels"]]
    ids = [one["id"] for one in BOARD["panels"]]
    assert len(set(places)) == len(set(ids)) == len(ids)
    assert not {"localhost", "127.0.0.1"} & set(re.findall(r"[\w.]+", json.dumps(BOARD)))

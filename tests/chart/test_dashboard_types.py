"""The dashboard fits the types that Grafana publishes for programs. Grafana itself is not tested."""

import json
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from tests.go_program import run_go

pytestmark = [pytest.mark.go, pytest.mark.timeout(1800)]

SDK = "github.com/grafana/grafana-foundation-sdk/go"
VERSION = "v0.0.22"
PROGRAM = Path(__file__).with_name("go") / "dashboard.go"
DASHBOARD = Path(__file__).parents[2] / "helm" / "kstorm" / "files" / "dashboard.json"


def test_dashboard_fits_the_types_of_grafana() -> None:
    text = DASHBOARD.read_text()
    panels = [each for each in json.loads(text)["panels"] if each["type"] != "row"]
    assert run_go(PROGRAM, SDK, VERSION, text).splitlines() == [each["title"] for each in panels]


def test_unknown_field_is_found() -> None:
    broken = json.loads(DASHBOARD.read_text())
    broken["panels"][0]["datasorce"] = {}
    with pytest.raises(LocalError, match="datasorce"):
        run_go(PROGRAM, SDK, VERSION, json.dumps(broken))

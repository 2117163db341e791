"""Each alert of the chart fires for its fault, and only for it. Prometheus' own `promtool`
evaluates them.

`./run test chart -m go` runs these tests. They need Go, which builds promtool once.
"""

import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.chart.alerts import ILLNESSES, WELL, YOUNG, Illness
from tests.chart.conftest import Render, one
from tests.go_program import go_program

pytestmark = [pytest.mark.go, pytest.mark.timeout(1800)]

PROMETHEUS = "v0.316.0"
FIRING = 'ALERTS{alertstate="firing"}'

Promtool = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def rules(render: Render) -> list[dict[str, Any]]:
    """Return the rules of a release with a pipeline."""
    values = {
        "monitoring": {"prometheusRule": {"enabled": True}},
        "pipeline": {"enabled": True, "topic": "word-counts"},
    }
    (group,) = one(render(values), "PrometheusRule", "wordcount")["spec"]["groups"]
    return list(group["rules"])


@pytest.fixture(scope="module")
def rule_file(rules: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the rules as a Prometheus file.

    In a test promtool resolves paths relative to the test.
    """
    path = tmp_path_factory.mktemp("rules") / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "wordcount", "rules": rules}]}))
    return path


@pytest.fixture(scope="module")
def promtool() -> Promtool:
    """Run promtool and return its result."""
    program = go_program("github.com/prometheus/prometheus/cmd/promtool", PROMETHEUS)

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    return run


def test_alert_rules_are_valid(promtool: Promtool, rule_file: Path) -> None:
    done = promtool("check", "rules", "--lint-fatal", rule_file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_a_test_case(rules: list[dict[str, Any]]) -> None:
    assert sorted(each["alert"] for each in rules) == sorted(each.alert for each in ILLNESSES)


def test_healthy_release_fires_no_alert(promtool: Promtool, rule_file: Path) -> None:
    silence = [{"expr": FIRING, "eval_time": f"{minute}m"} for minute in range(0, 60, 2)]
    test = {"interval": "15s", "input_series": _input(WELL.items()), "promql_expr_test": silence}
    _hold(promtool, rule_file, [test])


@pytest.mark.parametrize(
    "illness", [*ILLNESSES, *YOUNG], ids=lambda one: f"{one.alert}{'-young' * (one in YOUNG)}"
)
def test_fault_fires_only_its_alert(
    illness: Illness, promtool: Promtool, rule_file: Path, rules: list[dict[str, Any]]
) -> None:
    """The alert's texts name the faulty part. It fires only after its `for` duration."""
    (rule,) = [each for each in rules if each["alert"] == illness.alert]
    labels = {**rule["labels"], **illness.labels}
    texts = {name: _filled_in(text, labels) for name, text in rule["annotations"].items()}
    firing = {
        "labels": f"ALERTS{_braces({'alertname': illness.alert, 'alertstate': 'firing', **labels})}",
        "value": 1,
    }
    series = {
        name: values
        for name, values in {**WELL, **illness.series}.items()
        if name not in illness.leaves_out
    }
    test = {
        "interval": "15s",
        "input_series": _input(series.items()),
        "alert_rule_test": [
            {
                "alertname": illness.alert,
                "eval_time": f"{illness.fires}m",
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": texts}],
            }
        ],
        "promql_expr_test": [
            {"expr": FIRING, "eval_time": f"{illness.silent}m"},
            {"expr": FIRING, "eval_time": f"{illness.fires}m", "exp_samples": [firing]},
        ],
    }
    _hold(promtool, rule_file, [test])


def _hold(promtool: Promtool, rule_file: Path, tests: list[dict[str, Any]]) -> None:
    path = rule_file.with_name("test.yml")
    path.write_text(
        yaml.safe_dump(
            {"rule_files": [rule_file.name], "evaluation_interval": "15s", "tests": tests}
        )
    )
    done = promtool("test", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr


def _input(series: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"series": name, "values": values.strip()} for name, values in series]


def _filled_in(text: str, labels: dict[str, str]) -> str:
    """Fill in the text as Prometheus does. A label that the alert lacks is a KeyError."""
    return re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)


def _braces(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"

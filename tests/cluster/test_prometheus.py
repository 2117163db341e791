"""A real Prometheus scrapes a release with a pipeline, and evaluates its alerts and dashboard
queries."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.conftest import Install, define
from tests.cluster.prometheus import Prometheus
from tests.conftest import Eventually
from tests.e2e.release import Release
from tests.e2e.wordcount import WORDCOUNT

pytestmark = pytest.mark.timeout(1800)

NAMESPACE = "kstorm-prometheus"
OPERATOR = (
    "github.com/prometheus-operator/prometheus-operator",
    "v0.85.0",
    "example/prometheus-operator-crd",
)
KINDS = [f"monitoring.coreos.com_{kind}.yaml" for kind in ("podmonitors", "prometheusrules")]
VALUES = {
    "monitoring": {
        each: {"enabled": True} for each in ("podMonitor", "prometheusRule", "dashboard")
    },
    "pipeline": {
        "enabled": True,
        "topic": "word-counts",
        "definition": "examples.wordcount.tables:pipeline",
        "intervalSeconds": 5,
        "driverMemory": "512m",
        "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    },
}
ONLY_IN_TROUBLE = {"kstorm_kafka_away_seconds"}
"""Metrics that a healthy release does not have."""

WRITE = """
import sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": sys.argv[1]})
producer.produce("sentences", bytes([255]))
producer.flush()
"""


@dataclass(frozen=True)
class Watched:
    release: Release
    prometheus: Prometheus


@pytest.fixture(scope="module")
def watched(install: Install, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A release with input and monitoring."""
    with install(NAMESPACE, VALUES, lambda kube: define(kube, *OPERATOR, *KINDS)) as release:
        release.feed(40)
        release.pipeline.await_batch()
        with Prometheus(release.kube, tmp_path_factory.mktemp("prometheus")) as prometheus:
            yield Watched(release, prometheus)


def test_every_pod_is_scraped(watched: Watched, eventually: Eventually) -> None:
    """These are the spout, the bolts, the ackers and the pipeline. The servers have no metrics."""
    label = f"app.kubernetes.io/instance={WORDCOUNT.name},app.kubernetes.io/component in (spout,bolt,acker,pipeline)"
    pods = {pod["metadata"]["name"] for pod in watched.release.kube.items("pods", "-l", label)}
    assert len(pods) == 6
    eventually(lambda: watched.prometheus.targets() == dict.fromkeys(pods, "up"), 60)


def test_every_panel_of_the_dashboard_has_data(watched: Watched, eventually: Eventually) -> None:
    """Each expression returns a number. The variables are filled in as Grafana does."""
    found = watched.release.kube.get(f"configmap/{WORDCOUNT.name}-dashboard")["data"][
        f"{WORDCOUNT.name}.json"
    ]
    panels = [panel for panel in json.loads(found)["panels"] if panel["type"] != "row"]
    assert len(panels) == 14
    for panel in panels:
        for target in panel["targets"]:
            asked = (
                target["expr"].replace("$namespace", NAMESPACE).replace("$__rate_interval", "1m")
            )
            eventually(lambda asked=asked: _numbers(watched.prometheus, asked), 120)  # type: ignore[misc]
            legend = re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
            for labels, _ in watched.prometheus.samples(asked):
                assert labels.keys() >= set(legend), (
                    f"{panel['title']}: its legend names labels that are not there"
                )


def test_every_rule_is_evaluated_and_none_fires(watched: Watched, eventually: Eventually) -> None:
    """Each rule finds its metrics. A healthy release fires no alert."""
    eventually(lambda: {rule["health"] for rule in watched.prometheus.rules()} == {"ok"}, 60)
    rules = watched.prometheus.rules()
    assert len(rules) == 13
    metrics = {name for rule in rules for name in re.findall(r"\bkstorm_[a-z_]+", rule["query"])}
    eventually(
        lambda: (
            [name for name in metrics if not watched.prometheus.samples(name)] == [*ONLY_IN_TROUBLE]
        ),
        60,
    )
    assert watched.prometheus.firing() == set()


def test_dead_letter_fires_an_alert(watched: Watched, eventually: Eventually) -> None:
    """The message is not valid text. It goes from the source topic to the alert."""
    watched.release.kube.kubectl(
        "exec", "feed", "--", "python3", "-c", WRITE, f"{WORDCOUNT.name}-kafka:9092"
    )
    told = {("KstormDeadLetters", "sentences put messages into the dead letters")}
    eventually(lambda: watched.prometheus.firing() == told, 60)


def _numbers(prometheus: Prometheus, expression: str) -> bool:
    return any(math.isfinite(value) for _, value in prometheus.samples(expression))

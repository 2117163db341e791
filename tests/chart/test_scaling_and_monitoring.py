"""Autoscalers, disruption budgets and monitoring of the workloads."""

import json
import re
from pathlib import Path

import pytest

from kstorm.runtime.base.settings import load_topology
from kstorm_pipeline.monitor.metrics import Metrics
from tests.chart.conftest import Render, one

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "shared" / "src" / "kstorm" / "runtime"


def test_autoscaled_workload_has_no_replicas(render: Render) -> None:
    """Otherwise every upgrade would reset the number."""
    objects = render(base="prod")
    assert "replicas" not in one(objects, "Deployment", "wordcount-split")["spec"]
    assert one(objects, "Deployment", "wordcount-sink")["spec"]["replicas"] == 2
    scaler = one(objects, "HorizontalPodAutoscaler", "wordcount-split")["spec"]
    assert scaler["scaleTargetRef"] == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "wordcount-split",
    }
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 12)
    down = scaler["behavior"]["scaleDown"]
    assert down["stabilizationWindowSeconds"] >= 300
    assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 60}]


def test_keda_uses_the_lag_of_the_named_group_or_of_the_bolt(render: Render) -> None:
    """Without a name, the trigger has the topic and group that the runtime gives the bolt."""
    objects = render(base="keda")
    wanted = {
        "wordcount-split": ("Deployment", "sentences", "wordcount", "1000", 2, 6),
        "wordcount-count": ("StatefulSet", "wordcount.count", "wordcount.count", "50", 1, 4),
        "wordcount-sentences": ("StatefulSet", "sentences", "wordcount", "5000", 1, 2),
    }
    found = {}
    for each in objects:
        if each["kind"] == "ScaledObject":
            (trigger,) = each["spec"]["triggers"]
            assert trigger["authenticationRef"] == {"name": "wordcount-kafka"}
            asked = trigger["metadata"]
            assert all(isinstance(value, str) for value in asked.values())
            assert (asked["offsetResetPolicy"], asked["excludePersistentLag"]) == (
                "earliest",
                "true",
            )
            assert (asked["bootstrapServers"], asked["sasl"]) == (
                "kafka.kafka:9093",
                "scram_sha512",
            )
            spec = each["spec"]
            down = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]["scaleDown"]
            assert down["stabilizationWindowSeconds"] >= 300
            assert down["policies"] == [{"type": "Pods", "value": 1, "periodSeconds": 60}]
            found[each["metadata"]["name"]] = (
                spec["scaleTargetRef"]["kind"],
                asked["topic"],
                asked["consumerGroup"],
                asked["lagThreshold"],
                spec["minReplicaCount"],
                spec["maxReplicaCount"],
            )
    assert found == wanted
    topology = load_topology("examples.wordcount.topology:topology")
    assert topology.bolt_topic("count") == "wordcount.count"


def test_disruption_budgets_allow_one_pod_per_workload(render: Render) -> None:
    budgets = [each for each in render(base="prod") if each["kind"] == "PodDisruptionBudget"]
    assert len(budgets) == 5
    for each in budgets:
        assert each["spec"]["maxUnavailable"] == 1
        assert each["spec"]["selector"]["matchLabels"]["kstorm.io/component"]


def test_pod_monitor_selects_the_pods_with_metrics(render: Render) -> None:
    """It exists only on request."""
    objects = render(base="prod")
    selector = one(objects, "PodMonitor", "wordcount")["spec"]["selector"]["matchLabels"].items()
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            template = each["spec"]["template"]
            selected = selector <= template["metadata"]["labels"].items()
            ports = template["spec"]["containers"][0].get("ports", [])
            assert selected == ({"name": "http", "containerPort": 6066} in ports)
            assert selected or each["metadata"]["name"] in ("wordcount-ui", "wordcount-traces")
    assert not [each for each in render() if each["kind"] in ("PodMonitor", "PrometheusRule")]


def test_pipeline_has_its_own_pod_monitor(render: Render) -> None:
    """Its driver is not a component of the topology. No other pod has its labels."""
    objects = render({"monitoring": {"podMonitor": {"enabled": True}}}, base="executors")
    selector = one(objects, "PodMonitor", "wordcount-pipeline")["spec"]["selector"][
        "matchLabels"
    ].items()
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
    }
    chosen = [name for name, pod in pods.items() if selector <= pod["metadata"]["labels"].items()]
    assert chosen == ["wordcount-pipeline"]
    assert {"name": "http", "containerPort": 6066} in pods["wordcount-pipeline"]["spec"][
        "containers"
    ][0]["ports"]
    without = {"monitoring": {"podMonitor": {"enabled": True}}, "pipeline": {"enabled": False}}
    assert [
        each["metadata"]["name"] for each in render(without) if each["kind"] == "PodMonitor"
    ] == ["wordcount"]


def shown_metrics() -> set[str]:
    """Return the names of all metrics that a service exports."""
    text = "".join(path.read_text() for path in SOURCES.rglob("*.py"))
    plain = {f"kstorm_{name}" for name in re.findall(r'yield \(?\s*"([a-z_]+)"', text)}
    endings = {"counter": "_total", "histogram": "_bucket", "gauge": ""}
    of_pipeline = {each.name + endings[each.type] for each in Metrics().registry.collect()}
    return (
        plain
        | of_pipeline
        | {f"kstorm_{name}_bucket" for name in re.findall(r'add_latency\(\s*"([a-z_]+)"', text)}
    )


def test_alerts_and_dashboard_use_existing_metrics(render: Render) -> None:
    objects = render(base="prod")
    (group,) = one(objects, "PrometheusRule", "wordcount")["spec"]["groups"]
    dashboard = json.loads(
        one(objects, "ConfigMap", "wordcount-dashboard")["data"]["wordcount.json"]
    )
    asked = [rule["expr"] for rule in group["rules"]]
    asked += [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])
    ]
    names = set(re.findall(r"\bkstorm_[a-z_]+", " ".join(asked)))
    assert len(names) > 8
    assert names <= shown_metrics()
    for expression in asked:
        assert (
            'pod=~"wordcount-pipeline-.+"'
            if "kstorm_pipeline_" in expression
            else 'topology="wordcount"'
        ) in expression
        assert expression.count("(") == expression.count(")")


def test_only_a_release_with_a_pipeline_has_pipeline_alerts(render: Render) -> None:
    monitoring = {"monitoring": {"prometheusRule": {"enabled": True, "lagSeconds": 90}}}
    found = []
    for enabled in (True, False):
        objects = render({**monitoring, "pipeline": {"enabled": enabled, "topic": "word-counts"}})
        (group,) = one(objects, "PrometheusRule", "wordcount")["spec"]["groups"]
        found.append(
            {rule["alert"]: rule["expr"] for rule in group["rules"] if "Pipeline" in rule["alert"]}
        )
    names = ("Missing", "StandsStill", "Behind", "Quarantine", "MostlyQuarantined")
    assert found[0].keys() == {f"KstormPipeline{name}" for name in names}
    assert found[0]["KstormPipelineBehind"].endswith("> 90")
    assert not found[1]


def test_missing_task_alert_covers_every_component(render: Render) -> None:
    """It compares with the component's number of tasks."""
    (group,) = one(render(base="prod"), "PrometheusRule", "wordcount")["spec"]["groups"]
    (rule,) = [rule for rule in group["rules"] if rule["alert"] == "KstormTasksMissing"]
    found = dict(re.findall(r'kstorm_tasks\{component="(\w+)"[^}]*\}\) < (\d+)', rule["expr"]))
    assert found == {"sentences": "4", "split": "12", "count": "8", "sink": "4", "__acker": "4"}


def test_extra_objects_are_templates(render: Render) -> None:
    """Their strings are rendered."""
    found = one(render(base="prod"), "ConfigMap", "wordcount-extra")
    assert found["data"] == {"topology": "wordcount"}


@pytest.mark.parametrize(
    ("url", "page"),
    [("", "docs/guides/alerts.md"), ("https://wiki.example/alerts", "https://wiki.example/alerts")],
)
def test_each_alert_links_to_its_section(render: Render, url: str, page: str) -> None:
    """A heading of the page, which has one for each alert and no other."""
    values = {
        "monitoring": {"prometheusRule": {"enabled": True, "runbookUrl": url}},
        "pipeline": {"enabled": True, "topic": "word-counts"},
    }
    (group,) = one(render(values), "PrometheusRule", "wordcount")["spec"]["groups"]
    links = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in group["rules"]}
    text = (ROOT / "docs/guides/alerts.md").read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert links == {heading: f"{page}#{heading.lower()}" for heading in headings}

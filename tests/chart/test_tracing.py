"""The pod that exports traces: off without a collector, with one replica, without rights, and with
the services' logins."""

from typing import Any

import pytest

from kstorm.cli.__main__ import app
from tests.chart.conftest import Objects, Render, environment, one

COLLECTOR = "http://collector.monitoring:4318"


def tracing(endpoint: str = COLLECTOR, **more: Any) -> dict[str, Any]:
    return {"tracing": {"otlp": {"endpoint": endpoint, **more}}}


def pod(objects: Objects) -> dict[str, Any]:
    found: dict[str, Any] = one(objects, "Deployment", "wordcount-traces")["spec"]["template"][
        "spec"
    ]
    return found


def test_without_a_collector_there_is_no_trace_exporter(render: Render) -> None:
    """Its policy is missing too."""
    assert not [each for each in render(base="dev") if each["metadata"]["name"].endswith("-traces")]


def test_trace_exporter_is_replaced_not_rolled(render: Render) -> None:
    """An upgrade stops the old pod first, because two exporters would send the same traces."""
    spec = one(render(tracing()), "Deployment", "wordcount-traces")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_exporter_runs_continuously_with_the_configured_options(render: Render) -> None:
    """The command has each of these options."""
    for more, own in (
        ({}, []),
        ({"slowerThan": "500ms"}, ["--slower-than=500ms"]),
        ({"slowestShare": 0.01}, ["--slowest-share=0.01"]),
    ):
        [container] = pod(render(tracing(**more, most=2_000_000)))["containers"]
        assert container["command"] == ["tini", "--", "kstorm", "export-traces"]
        rest = ["--most=2000000", "--limit-mb=512", "--max-lag=15m"]
        assert container["args"] == ["--follow", f"--otlp={COLLECTOR}", *own, *rest]
        assert {word.partition("=")[0] for word in container["args"]} <= _options()


def _options() -> set[str]:
    from typer.main import get_command

    (command,) = [one for name, one in get_command(app).commands.items() if name == "export-traces"]  # type: ignore[attr-defined]
    return {name for option in command.params for name in option.opts}


def test_exporter_has_no_rights_on_kubernetes(render: Render) -> None:
    """It connects only to Kafka and the collector."""
    assert pod(render(tracing()))["automountServiceAccountToken"] is False


def test_exporter_has_image_code_and_logins_of_a_spout(render: Render) -> None:
    """It loads the topology, and reads its topics like the services."""
    objects = render(base="tls-sasl")
    traces = pod(objects)
    spout = one(objects, "StatefulSet", "wordcount-sentences")["spec"]["template"]["spec"]
    [own], [other] = traces["containers"], spout["containers"]
    assert own["image"] == other["image"]
    own_env, its_env = environment(own), environment(other)
    of_both = {
        name
        for name in its_env
        if name.startswith(("KSTORM_KAFKA", "KSTORM_ZOOKEEPER", "KSTORM_TOPOLOGY", "PYTHON"))
    }
    assert {"KSTORM_KAFKA_PROPERTIES_FILE", "KSTORM_TOPOLOGY", "PYTHONPATH"} <= of_both
    assert {name: own_env[name] for name in of_both} == {name: its_env[name] for name in of_both}
    mounts = [each for each in other["volumeMounts"] if each["name"] not in ("data", "tmp")]
    assert {"topology", "kafka", "tls", "zookeeper", "zookeeper-tls"} == {
        each["name"] for each in mounts
    }
    assert all(each in own["volumeMounts"] for each in mounts)


def test_collector_login_is_a_file(render: Render) -> None:
    """It comes from an existing Secret, and is on no command line."""
    traces = pod(render(tracing(existingSecret={"name": "collector", "key": "login"})))
    [container] = traces["containers"]
    [mount] = [each for each in container["volumeMounts"] if each["name"] == "otlp"]
    assert mount["readOnly"] is True
    assert container["args"][-1] == f"--headers-file={mount['mountPath']}/login"
    assert {"name": "otlp", "secret": {"secretName": "collector"}} in traces["volumes"]
    assert "otlp" not in [each["name"] for each in pod(render(tracing()))["volumes"]]


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        (COLLECTOR, 4318),
        ("https://collector/otlp", 443),
        ("http://collector", 80),
        ("http://[fd00::1]:4318/a:9", 4318),
    ],
)
def test_egress_policy_allows_the_collector(render: Render, endpoint: str, port: int) -> None:
    """Only the exporter may use its port, for the named peers if there are any."""
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    for named, expected in (([], {}), (peers, {"to": peers})):
        policy = {"networkPolicy": {"egress": {"enabled": True, "collector": named}}}
        objects = render({**tracing(endpoint), **policy})
        spec = one(objects, "NetworkPolicy", "wordcount-traces")["spec"]
        assert (spec["policyTypes"], spec["egress"]) == (
            ["Egress"],
            [{"ports": [{"port": port}], **expected}],
        )
        template = one(objects, "Deployment", "wordcount-traces")["spec"]["template"]["metadata"]
        assert spec["podSelector"]["matchLabels"].items() <= template["labels"].items()
        general = one(objects, "NetworkPolicy", "wordcount")["spec"]["egress"]
        assert port not in [each["port"] for rule in general for each in rule.get("ports", [])]
    without = render(tracing(endpoint))
    assert "wordcount-traces" not in [
        each["metadata"]["name"] for each in without if each["kind"] == "NetworkPolicy"
    ]


def test_exporter_is_not_a_component_of_the_topology(render: Render) -> None:
    """So `kstorm topology status` and `scale` ignore it."""
    labels = one(render(tracing()), "Deployment", "wordcount-traces")["spec"]["template"][
        "metadata"
    ]["labels"]
    assert not [name for name in labels if name.startswith("kstorm.io/")]


def test_changed_topology_restarts_the_exporter(render: Render) -> None:
    """This holds if the values contain its code."""
    texts = [{"topologyFiles": {"hello.py": text}} for text in ("a = 1", "a = 2")]
    found = [
        one(render({**tracing(), **files}), "Deployment", "wordcount-traces") for files in texts
    ]
    first, second = (
        each["spec"]["template"]["metadata"]["annotations"]["checksum/topology"] for each in found
    )
    assert first != second

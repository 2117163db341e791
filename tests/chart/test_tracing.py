"""The pod of a release that sends traces: off unless a collector is named, one, with no rights, and with the services' logins."""

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


def test_without_a_collector_there_is_none(render: Render) -> None:
    """Nor a policy."""
    assert not [each for each in render(base="dev") if each["metadata"]["name"].endswith("-traces")]


def test_there_is_never_a_second_one(render: Render) -> None:
    """It would send the same; so the old one goes first at an upgrade."""
    spec = one(render(tracing()), "Deployment", "wordcount-traces")["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})


def test_it_goes_on_for_ever_as_it_is_told(render: Render) -> None:
    """Each option is one that the command has."""
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


def test_it_has_no_rights_on_kubernetes(render: Render) -> None:
    """It asks Kafka and the collector alone."""
    assert pod(render(tracing()))["automountServiceAccountToken"] is False


def test_it_is_a_spout_s_image_with_the_spout_s_code_and_logins(render: Render) -> None:
    """As it needs the topology, and reads its topics as the services do."""
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


def test_a_login_for_the_collector_is_a_file(render: Render) -> None:
    """Of a Secret that exists, and on no command line."""
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
def test_where_traffic_is_forbidden_it_reaches_the_collector(
    render: Render, endpoint: str, port: int
) -> None:
    """At its port, and it alone; at the peers that are named."""
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


def test_it_is_no_component_of_the_topology(render: Render) -> None:
    """So `kstorm topology status` and `scale` know nothing of it."""
    labels = one(render(tracing()), "Deployment", "wordcount-traces")["spec"]["template"][
        "metadata"
    ]["labels"]
    assert not [name for name in labels if name.startswith("kstorm.io/")]


def test_a_changed_topology_is_read_anew(render: Render) -> None:
    """Where its code is in the values."""
    texts = [{"topologyFiles": {"hello.py": text}} for text in ("a = 1", "a = 2")]
    found = [
        one(render({**tracing(), **files}), "Deployment", "wordcount-traces") for files in texts
    ]
    first, second = (
        each["spec"]["template"]["metadata"]["annotations"]["checksum/topology"] for each in found
    )
    assert first != second

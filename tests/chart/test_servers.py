"""Kafka and ZooKeeper: external with logins from Secrets, or part of the release, and the Job that
runs before the pods."""

import json

import msgspec
import pytest

from kstorm.operations.control.deployment_shape import parse_shape
from kstorm.runtime.base.zookeeper_tls import ZooKeeperTls
from tests.chart.conftest import Objects, Render, containers, environment, one, pod_specs
from tests.chart.test_pipeline import AUDITED, KNOWN, auditing, driver_of

PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def test_logins_come_from_secrets(render: Render) -> None:
    """They are files. Properties point to these files."""
    spec = one(render(base="tls-sasl"), "Deployment", "wordcount-split")["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    given = environment(container)
    assert json.loads(given["KSTORM_KAFKA_PROPERTIES"]) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "ssl.ca.location": "/etc/kstorm/tls/ca.crt",
        "ssl.certificate.location": "/etc/kstorm/tls/tls.crt",
        "ssl.key.location": "/etc/kstorm/tls/tls.key",
        "socket.keepalive.enable": True,
    }
    assert given["KSTORM_KAFKA_PROPERTIES_FILE"] == "/etc/kstorm/kafka/kafka.json"
    assert given["KSTORM_ZOOKEEPER_AUTH_FILE"] == "/etc/kstorm/zookeeper/auth"
    secrets = {
        volume["name"]: volume["secret"]["secretName"]
        for volume in spec["volumes"]
        if "secret" in volume
    }
    assert secrets == {
        "kafka": "wordcount-kafka",
        "tls": "kafka-ca",
        "zookeeper": "wordcount-zookeeper",
        "zookeeper-tls": "zookeeper-tls",
    }
    assert not [each for each in render(base="tls-sasl") if each["kind"] == "Secret"]


def test_zookeeper_tls_settings_are_passed_on(render: Render) -> None:
    """The services read the settings unchanged, and the files are at these paths.

    If only `enabled` is set, the services use the authorities of the image.
    """
    base = "/etc/kstorm/zookeeper-tls"
    given = {
        "ca": f"{base}/ca.crt",
        "certfile": f"{base}/tls.crt",
        "keyfile": f"{base}/tls.key",
        "keyfile_password_file": f"{base}/password",
    }
    for name, spec in pod_specs(render(base="tls-sasl")).items():
        (container,) = spec["containers"]
        if "KSTORM_ZOOKEEPER" in environment(container):
            assert json.loads(environment(container)["KSTORM_ZOOKEEPER_TLS"]) == given, name
            mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
            assert mounts["zookeeper-tls"] == base, name
            assert "zookeeper-tls" in {each["name"] for each in spec["volumes"]}, name
    assert msgspec.convert(given, ZooKeeperTls)
    for more, says in (
        ({"enabled": True}, {}),
        ({"enabled": True, "checkHostname": False}, {"check_hostname": False}),
        (
            {"enabled": True, "existingSecret": "ca", "caKey": "bundle.pem"},
            {"ca": f"{base}/bundle.pem"},
        ),
    ):
        split = one(render({"zookeeper": {"tls": more}}), "Deployment", "wordcount-split")
        (container,) = split["spec"]["template"]["spec"]["containers"]
        assert json.loads(environment(container)["KSTORM_ZOOKEEPER_TLS"]) == says
    split = one(render(), "Deployment", "wordcount-split")
    assert "KSTORM_ZOOKEEPER_TLS" not in environment(
        split["spec"]["template"]["spec"]["containers"][0]
    )


def test_audit_uses_tls_to_zookeeper(render: Render) -> None:
    """It has the files of the services. The driver does not query ZooKeeper and has none."""
    tls = {"enabled": True, "existingSecret": "zookeeper-tls", "clientCertificate": True}
    values = {"zookeeper": {"existingSecret": {"name": ""}, "tls": tls | {"keyPasswordKey": ""}}}
    objects = render(AUDITED | values, base="tls-sasl")
    (container,) = auditing(objects)["containers"]
    split = one(objects, "Deployment", "wordcount-split")["spec"]["template"]["spec"]["containers"][
        0
    ]
    given = environment(container)
    assert given["KSTORM_PIPELINE_ZOOKEEPER_TLS"] == environment(split)["KSTORM_ZOOKEEPER_TLS"]
    (mount,) = [each for each in container["volumeMounts"] if each["name"] == "zookeeper-tls"]
    assert mount in split["volumeMounts"]
    (volume,) = [each for each in auditing(objects)["volumes"] if each["name"] == "zookeeper-tls"]
    assert volume["secret"]["secretName"] == "zookeeper-tls"
    assert given.keys() <= KNOWN
    assert "zookeeper-tls" not in str(driver_of(objects))
    logged_in = auditing(render(AUDITED, base="tls-sasl"))
    assert "zookeeper-tls" not in str(logged_in)


def test_job_and_test_have_the_logins_of_the_services(render: Render) -> None:
    wanted = {"source": "sentences", "sink": "word-counts"}
    for name, spec in pod_specs(render({"test": wanted}, base="tls-sasl")).items():
        if "pipeline" not in name and not name.startswith("CronJob"):  # Spark has its own client
            assert "KSTORM_KAFKA_PROPERTIES_FILE" in environment(spec["containers"][0]), name


def test_release_with_its_own_kafka_and_zookeeper(render: Render) -> None:
    """All pods, and Kafka's metadata, have the same addresses."""
    objects = render(base="dev")
    (kafka,) = one(objects, "StatefulSet", "wordcount-kafka")["spec"]["template"]["spec"][
        "containers"
    ]
    (split,) = one(objects, "Deployment", "wordcount-split")["spec"]["template"]["spec"][
        "containers"
    ]
    address = "wordcount-kafka.words.svc:9092"
    assert environment(split)["KSTORM_BOOTSTRAP_SERVERS"] == address
    assert environment(split)["KSTORM_ZOOKEEPER"] == "wordcount-zookeeper.words.svc:2181"
    assert environment(split)["KSTORM_REPLICATION_FACTOR"] == "1"
    assert environment(kafka)["KSTORM_ADVERTISED_LISTENERS"] == f"PLAINTEXT://{address}"
    for part, port in (("kafka", 9092), ("zookeeper", 2181)):
        service = one(objects, "Service", f"wordcount-{part}")
        assert [each["port"] for each in service["spec"]["ports"]] == [port]
        pods = one(objects, "StatefulSet", f"wordcount-{part}")["spec"]["template"]["metadata"][
            "labels"
        ]
        assert service["spec"]["selector"].items() <= pods.items()
    assert not [each for each in render() if "kafka" in each["metadata"]["name"]]


def test_job_checks_an_existing_kafka_before_install_and_upgrade(render: Render) -> None:
    """It compares the values with the code and creates the topics."""
    job = one(render(), "Job", "wordcount-prepare")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    assert "hook-failed" not in job["metadata"]["annotations"]["helm.sh/hook-delete-policy"], (
        "its log says why"
    )
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["command"] == ["kstorm", "prepare"]
    values, *rest = container["args"]
    assert rest == ["--wait=60"]
    shape = parse_shape(values.removeprefix("--values="))
    assert (shape.topology_name, shape.acker_tasks) == ("wordcount", 4)
    assert {
        id: (each.kind, each.tasks, each.stateful) for id, each in shape.components.items()
    } == {
        "sentences": ("spout", 2, False),
        "split": ("bolt", 4, False),
        "count": ("bolt", 4, True),
        "sink": ("bolt", 2, False),
    }
    assert job["spec"]["backoffLimit"] == 0


def test_reason_of_a_failed_install_is_shown(render: Render) -> None:
    """Helm prints the log.

    Otherwise it is in the Job, which is deleted after a day. The same holds for a failed test.
    """
    objects = render(base="prod")
    job, test = one(objects, "Job", "wordcount-prepare"), one(objects, "Pod", "wordcount-test")
    for each in (job, test):
        assert each["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-failed"
    assert job["spec"]["ttlSecondsAfterFinished"] == 86400
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"
    left = job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]
    assert all(labels["app.kubernetes.io/instance"] == "wordcount" for labels in left)


def test_job_needs_the_image_of_every_workload(render: Render) -> None:
    """An image that cannot be pulled stops the upgrade before a pod is replaced."""
    objects = render(base="prod")
    spec = one(objects, "Job", "wordcount-prepare")["spec"]["template"]["spec"]
    checked = [each["image"] for each in spec["initContainers"]]
    own = spec["containers"][0]["image"]
    assert len(set(checked)) == len(checked)
    run = {
        each["image"]
        for name, pod in pod_specs(objects).items()
        for each in pod["containers"]
        if name.startswith(("Deployment/", "StatefulSet/"))
    }
    assert {*checked, own} == run
    assert {tuple(each["command"]) for each in spec["initContainers"]} == {("true",)}
    same = render({"images": {name: {"repository": "all"} for name in ("spout", "bolt", "acker")}})
    assert "initContainers" not in str(one(same, "Job", "wordcount-prepare"))


def test_source_and_sink_may_be_created_later(render: Render) -> None:
    """On request the Job succeeds without them."""
    job = one(render({"prepare": {"allowMissingEnds": True}}), "Job", "wordcount-prepare")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"][1:] == [
        "--allow-missing-ends",
        "--wait=60",
    ]


def test_job_needs_nothing_of_the_release(render: Render) -> None:
    """The release does not exist yet.

    An earlier hook creates its code. Its account is not the chart's.
    """
    objects = render(base="dev")
    job = one(objects, "Job", "wordcount-prepare")
    spec = job["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "default"
    (code,) = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
    brought = one(objects, "ConfigMap", code)["metadata"]["annotations"]
    assert brought["helm.sh/hook"] == job["metadata"]["annotations"]["helm.sh/hook"]
    assert int(brought["helm.sh/hook-weight"]) < int(
        job["metadata"]["annotations"]["helm.sh/hook-weight"]
    )
    existing = render({"serviceAccount": {"create": False, "name": "streams"}})
    assert (
        one(existing, "Job", "wordcount-prepare")["spec"]["template"]["spec"]["serviceAccountName"]
        == "streams"
    )


def test_pods_wait_for_the_kafka_of_the_release(render: Render) -> None:
    """The Job cannot reach it at the install.

    The pods create the topics, the source and the sink.
    """
    objects = render(base="dev")
    (container,) = one(objects, "Job", "wordcount-prepare")["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["args"][-1] == "--check-only"
    for name, spec in pod_specs(objects).items():
        for each in spec["containers"]:
            if each["name"] in ("spout", "bolt", "acker"):
                assert {"name": "KSTORM_END_PARTITIONS", "value": "6"} in each["env"], name
    for each in (objects, render()):
        waiting = {name for name, spec in pod_specs(each).items() if "initContainers" in spec}
        assert waiting == {"Job/wordcount-prepare"}
    assert "KSTORM_END_PARTITIONS" not in str(render())


def test_topology_files_are_mounted_where_its_code_is_loaded(render: Render) -> None:
    files = {"examples/__init__.py": "", "examples/deep/er.py": "x = 1\n"}
    objects = render({"topologyFiles": files})
    for name, spec in pod_specs(objects).items():
        (volume,) = [each["configMap"] for each in spec["volumes"] if each["name"] == "topology"]
        data = one(objects, "ConfigMap", volume["name"])["data"]
        assert {item["path"]: data[item["key"]] for item in volume["items"]} == files, name
        for container in spec["containers"]:
            assert {"name": "topology", "mountPath": "/topology", "readOnly": True} in container[
                "volumeMounts"
            ], name
            assert environment(container)["PYTHONPATH"] == "/topology", name


WIRED = {"t.yaml": "name: t\n", "sites/here.yaml": "", "here.properties": "a: 1\n"}


def test_topology_yaml_is_mounted_next_to_the_code_of_the_image(render: Render) -> None:
    """If /topology is part of the image, all pods that load the topology get the files' paths."""
    more = {"topology": "t.yaml", "topologyFilter": "here.properties", "topologyFiles": WIRED}
    objects = render(more)
    for name, spec in pod_specs(objects).items():
        volumes = {each["name"]: each for each in spec["volumes"]}
        assert "topology" not in volumes, name
        volume = volumes["wiring"]["configMap"]
        data = one(objects, "ConfigMap", volume["name"])["data"]
        assert {item["path"]: data[item["key"]] for item in volume["items"]} == WIRED, name
        for container in spec["containers"]:
            mount = {"name": "wiring", "mountPath": "/etc/kstorm/topology", "readOnly": True}
            assert mount in container["volumeMounts"], name
            told = environment(container)
            assert told["KSTORM_TOPOLOGY"] == "/etc/kstorm/topology/t.yaml", name
            assert told["KSTORM_TOPOLOGY_FILTER"] == "/etc/kstorm/topology/here.properties", name


def test_topology_yaml_and_code_are_mounted_separately(render: Render) -> None:
    """All other files are at /topology. A path that is not among them stays unchanged."""
    objects = render({"topology": "t.yaml", "topologyFiles": WIRED | {"words.py": "x = 1\n"}})
    spec = pod_specs(objects)["Deployment/wordcount-split"]
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert [item["path"] for item in volumes["topology"]["configMap"]["items"]] == ["words.py"]
    assert sorted(item["path"] for item in volumes["wiring"]["configMap"]["items"]) == sorted(WIRED)
    (container,) = containers(
        pod_specs(render({"topology": "/topology/own.yml"}))["Deployment/wordcount-split"]
    )
    assert environment(container)["KSTORM_TOPOLOGY"] == "/topology/own.yml"
    assert "KSTORM_TOPOLOGY_FILTER" not in environment(container)


def test_policy_allows_only_metrics_and_the_release(objects: Objects) -> None:
    """With egress, it allows only DNS, the release, and the addresses of Kafka and ZooKeeper."""
    policy = one(objects, "NetworkPolicy", "wordcount")["spec"]
    metrics, own = policy["ingress"]
    assert metrics["ports"] == [{"port": 6066}]
    assert metrics["from"]
    assert own["from"] == [{"podSelector": policy["podSelector"]}]
    if "Egress" in policy["policyTypes"]:
        dns, within, brokers, extra = policy["egress"]
        assert {port["port"] for port in dns["ports"]} == {53}
        assert within["to"] == own["from"]
        assert [port["port"] for port in brokers["ports"]] == [2181, 9092, 9094]
        assert brokers["to"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
        assert extra == {"ports": [{"port": 443}]}


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ({}, [{"podSelector": {}}]),
        ({"metricsFrom": []}, [{"podSelector": {}}]),
        ({"metricsFrom": [PROMETHEUS]}, [PROMETHEUS]),
        ({"metricsFrom": [PROMETHEUS, {"podSelector": {}}]}, [PROMETHEUS, {"podSelector": {}}]),
        ({"metricsFrom": [{"namespaceSelector": {}}]}, [{"namespaceSelector": {}}]),
    ],
    ids=["nothing is said", "nobody", "another namespace", "both", "all"],
)
def test_policy_allows_metrics_to_the_own_namespace_or_named_peers(
    render: Render, said: dict[str, object], allowed: list[dict[str, object]]
) -> None:
    """The web ports have no login. A rule without `from` would allow every pod."""
    for base in ("minimal", "dev", "executors"):
        metrics, _ = one(render({"networkPolicy": said}, base=base), "NetworkPolicy", "wordcount")[
            "spec"
        ]["ingress"]
        assert metrics == {"ports": [{"port": 6066}], "from": allowed}, base


def test_helm_test_sends_the_message_of_the_values(render: Render) -> None:
    """Without a message it only checks the status."""
    objects = render({"test": {"message": "a {marker}"}}, base="prod")
    (container,) = one(objects, "Pod", "wordcount-test")["spec"]["containers"]
    assert container["command"] == ["kstorm", "probe"]
    assert container["args"] == [
        "--source=sentences",
        "--sink=word-counts",
        "--message=a {marker}",
        "--expect={marker}",
        "--timeout=120",
    ]
    for base in ("prod", "minimal"):
        (container,) = one(render(base=base), "Pod", "wordcount-test")["spec"]["containers"]
        assert container["args"] == ["--timeout=120"]


def test_own_servers_end_after_the_services(render: Render) -> None:
    """Kubernetes stops all pods at once.

    Each server waits for its clients until just before its grace period ends.
    """
    objects = render(base="dev")
    for part, port in (("kafka", 9092), ("zookeeper", 2181)):
        spec = one(objects, "StatefulSet", f"wordcount-{part}")["spec"]["template"]["spec"]
        command = spec["containers"][0]["lifecycle"]["preStop"]["exec"]["command"]
        assert command[:3] == ["python3", "-m", "kstorm.dev.delayed_stop"]
        assert command[3] == f"wordcount-{part}.words.svc:{port}", (
            "its Service, which is removed before any pod"
        )
        assert int(command[4]) <= spec["terminationGracePeriodSeconds"] - 10

"""The pipeline in one pod, with executors in their own pods, and as a SparkApplication for the
operator."""

import json
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kstorm_pipeline.encryption import STRONG
from kstorm_pipeline.setting_values import PREFIX
from kstorm_pipeline.settings import Settings
from tests.chart.conftest import KUBERNETES, Objects, Render, environment, one

KNOWN = {PREFIX + name.upper() for name in Settings.__dataclass_fields__} | {
    f"{PREFIX}KAFKA_OPTIONS_FILE",
    f"{PREFIX}SCHEMA_REGISTRY_OPTIONS_FILE",
    f"{PREFIX}SPARK_CONF_FILE",
}
NAME = "wordcount-pipeline"


def driver_of(objects: Objects) -> dict[str, Any]:
    """Return the container of the driver in the Deployment's pod."""
    (container,) = one(objects, "Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    return dict(container)


def spark_conf(objects: Objects) -> dict[str, str]:
    """Return the Spark settings of this driver."""
    return dict(json.loads(environment(driver_of(objects))["KSTORM_PIPELINE_SPARK_CONF"]))


def executor_pod(objects: Objects) -> dict[str, Any]:
    return dict(yaml.safe_load(one(objects, "ConfigMap", NAME)["data"]["executor.yaml"]))


def application(objects: Objects) -> dict[str, Any]:
    """Return the spec of the SparkApplication."""
    return dict(one(objects, "SparkApplication", NAME)["spec"])


def assert_valid(pod: dict[str, Any]) -> None:
    """Validate by the Kubernetes schema, without unknown fields. Spark adds the image."""
    for container in pod["spec"]["containers"]:
        container["image"] = "image:1"
    kubernetes_validate.validate(
        {"apiVersion": "v1", "kind": "Pod", **pod}, KUBERNETES, strict=True
    )


def test_tables_have_one_writer(render: Render) -> None:
    """Its volume outlives the release, and all of its variables are settings."""
    objects = render(base="tls-sasl")
    deployment = one(objects, "Deployment", NAME)["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    claim = one(objects, "PersistentVolumeClaim", NAME)
    assert claim["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    given = environment(driver_of(objects))
    assert given.keys() <= KNOWN
    assert given["KSTORM_PIPELINE_TRIGGER"] == "continuous"
    assert given["KSTORM_PIPELINE_TOPIC"] == "word-counts"


def test_quarantine_limit_is_passed_on(render: Render) -> None:
    """A fraction of a percent is allowed."""
    for given, told in (
        ({}, "50"),
        ({"quarantinePercent": 12.5}, "12.5"),
        ({"quarantinePercent": 0}, "0"),
    ):
        driver = driver_of(render({"pipeline": given}, base="tls-sasl"))
        assert environment(driver)["KSTORM_PIPELINE_QUARANTINE_PERCENT"] == told


@pytest.mark.parametrize("base", ["tls-sasl", "executors", "operator"])
def test_driver_has_probes(render: Render, base: str) -> None:
    """They use the port of its settings. In diagnostic mode the driver has no probes."""
    objects = render({"pipeline": {"stalledSeconds": 90}}, base=base)
    if base == "operator":
        (driver,) = application(objects)["driver"]["template"]["spec"]["containers"]
    else:
        driver = driver_of(objects)
    assert {
        "name": "http",
        "containerPort": int(environment(driver)["KSTORM_PIPELINE_HTTP_PORT"]),
    } in driver["ports"]
    assert environment(driver)["KSTORM_PIPELINE_STALLED_SECONDS"] == "90"
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert driver[probe]["httpGet"] == {"path": path, "port": "http"}
    if base != "operator":
        assert "livenessProbe" not in driver_of(
            render({"diagnosticMode": {"enabled": True}}, base=base)
        )


def test_only_the_driver_has_the_schema_registry_login(render: Render) -> None:
    """The whole Secret is mounted, so it may also hold certificates.

    Executors never call the registry.
    """
    given = environment(driver_of(render(base="tls-sasl")))
    assert given["KSTORM_PIPELINE_SCHEMA_REGISTRY"] == "https://registry.example.com:8081"
    options = json.loads(given["KSTORM_PIPELINE_SCHEMA_REGISTRY_OPTIONS"])
    assert options == {"ssl.ca.location": "/etc/kstorm/registry/ca.crt"}
    objects = render(base="executors")
    driver = one(objects, "Deployment", NAME)["spec"]["template"]["spec"]
    (mount,) = [
        each for each in driver["containers"][0]["volumeMounts"] if each["name"] == "registry"
    ]
    (volume,) = [each for each in driver["volumes"] if each["name"] == "registry"]
    assert volume["secret"] == {"secretName": "wordcount-registry"}
    file = environment(driver_of(objects))["KSTORM_PIPELINE_SCHEMA_REGISTRY_OPTIONS_FILE"]
    assert file == f"{mount['mountPath']}/registry.json"
    assert "registry" not in [each["name"] for each in executor_pod(objects)["spec"]["volumes"]]


def test_own_pipeline_is_mounted_like_a_topology(render: Render) -> None:
    """The driver and its executors mount the named or created ConfigMap.

    Without one they mount nothing.
    """

    def mounted(pod: dict[str, Any]) -> tuple[list[str], list[dict[str, Any]]]:
        spec = pod["spec"]
        places = [
            each["mountPath"]
            for each in spec["containers"][0]["volumeMounts"]
            if each["name"] == "topology"
        ]
        return places, [each["configMap"] for each in spec["volumes"] if each["name"] == "topology"]

    objects = render(base="executors")
    for pod in (one(objects, "Deployment", NAME)["spec"]["template"], executor_pod(objects)):
        assert mounted(pod) == (["/topology"], [{"name": "wordcount-code"}])
    assert (
        environment(driver_of(objects))["KSTORM_PIPELINE_PIPELINE"]
        == "examples.wordcount.tables:pipeline"
    )
    objects = render({"pipeline": {"definition": ""}}, base="executors")
    for pod in (one(objects, "Deployment", NAME)["spec"]["template"], executor_pod(objects)):
        assert mounted(pod) == ([], [])
    assert "KSTORM_PIPELINE_PIPELINE" not in environment(driver_of(objects))


def test_new_pipeline_code_restarts_the_driver(render: Render) -> None:
    """The pod has a checksum of the files, which share a ConfigMap with the topology."""

    def template(text: str) -> dict[str, Any]:
        values = {"topologyFiles": {"tables.py": text}, "existingTopologyConfigMap": ""}
        pipeline = {"definition": "tables:pipeline", "master": "local[*]"}
        objects = render({**values, "pipeline": pipeline}, base="executors")
        return dict(one(objects, "Deployment", NAME)["spec"]["template"])

    one_text, other = template("a = 1\n"), template("a = 2\n")
    (volume,) = [each for each in one_text["spec"]["volumes"] if each["name"] == "topology"]
    assert volume["configMap"] == {
        "name": "wordcount-topology",
        "items": [{"key": "tables.py", "path": "tables.py"}],
    }
    assert one_text["metadata"].pop("annotations") != other["metadata"].pop("annotations")
    assert one_text == other


def test_driver_without_executor_pods_has_no_rights(render: Render) -> None:
    """It has no settings for executors either."""
    objects = render(base="tls-sasl")
    roles = [
        each["metadata"]["name"] for each in objects if each["kind"] in ("Role", "RoleBinding")
    ]
    assert NAME not in roles
    spec = one(objects, "Deployment", NAME)["spec"]["template"]["spec"]
    assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == (
        "wordcount",
        False,
    )
    assert "KSTORM_PIPELINE_SPARK_CONF" not in environment(driver_of(objects))


def test_driver_may_only_manage_pods(render: Render) -> None:
    """No other pod has its account. Its executors have the release's account, without a token."""
    objects = render(base="executors")
    (rule,) = one(objects, "Role", NAME)["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
    assert set(rule["verbs"]) == {"get", "list", "watch", "create", "delete", "deletecollection"}
    binding = one(objects, "RoleBinding", NAME)
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": NAME,
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": NAME, "namespace": "words"}]
    users = [
        each["metadata"]["name"]
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
        and each["spec"]["template"]["spec"]["serviceAccountName"] == NAME
    ]
    assert users == [NAME]
    assert executor_pod(objects)["spec"]["serviceAccountName"] == "wordcount"


def test_executors_follow_the_values(render: Render) -> None:
    """The values give number and size.

    The image is the driver's. Kubernetes deletes them with the driver's pod.
    """
    objects = render(base="executors")
    conf = spark_conf(objects)
    assert (
        environment(driver_of(objects))["KSTORM_PIPELINE_MASTER"]
        == "k8s://https://kubernetes.default.svc"
    )
    sizes = {
        name: conf[f"spark.executor.{name}"]
        for name in ("instances", "cores", "memory", "memoryOverhead")
    }
    assert sizes == {"instances": "3", "cores": "2", "memory": "2g", "memoryOverhead": "512m"}
    assert conf["spark.kubernetes.executor.request.cores"] == "500m"
    assert environment(driver_of(objects))["KSTORM_PIPELINE_SHUFFLE_PARTITIONS"] == "12"
    assert conf["spark.kubernetes.container.image"] == driver_of(objects)["image"]
    assert conf["spark.kubernetes.namespace"] == "words"
    assert conf["spark.kubernetes.driver.pod.name"] == "$(KSTORM_POD_NAME)"
    assert conf["spark.driver.host"] == "$(KSTORM_POD_IP)"
    fields = [
        each["valueFrom"]["fieldRef"]["fieldPath"]
        for each in driver_of(objects)["env"]
        if "valueFrom" in each
    ]
    assert fields == ["metadata.name", "status.podIP"]
    (mount,) = [each for each in driver_of(objects)["volumeMounts"] if each["name"] == "executors"]
    assert (
        conf["spark.kubernetes.executor.podTemplateFile"] == f"{mount['mountPath']}/executor.yaml"
    )


def test_executors_need_only_pods(render: Render) -> None:
    """They need no ConfigMap, no Service and no claim, because the driver may not create them."""
    conf = spark_conf(render(base="executors"))
    assert conf["spark.kubernetes.executor.disableConfigMap"] == "true"
    for name in (
        "ownPersistentVolumeClaim",
        "reusePersistentVolumeClaim",
        "service.deleteOnTermination",
    ):
        assert conf[f"spark.kubernetes.driver.{name}"] == "false"


def test_executors_have_tables_certificates_and_code_but_no_login(render: Render) -> None:
    """Their pod is valid and has the release's labels. The driver sends them the Kafka settings."""
    objects = render(base="executors")
    pod = executor_pod(objects)
    assert_valid(pod)
    assert pod["metadata"]["labels"]["app.kubernetes.io/instance"] == "wordcount"
    assert pod["metadata"]["labels"]["app.kubernetes.io/component"] == "pipeline-executor"
    spec = pod["spec"]
    assert {volume["name"] for volume in spec["volumes"]} == {"data", "tmp", "tls", "topology"}
    assert {"name": "data", "persistentVolumeClaim": {"claimName": NAME}} in spec["volumes"]
    assert spec["nodeSelector"] == {"kubernetes.io/arch": "amd64"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}]


def test_changed_executor_template_restarts_the_driver(render: Render) -> None:
    """The driver reads the template once."""

    def annotations(more: dict[str, Any]) -> Any:
        return one(render(more, base="executors"), "Deployment", NAME)["spec"]["template"][
            "metadata"
        ]["annotations"]

    assert annotations({}) == annotations({"log": {"level": "DEBUG"}})
    assert annotations({}) != annotations(
        {"pipeline": {"executors": {"nodeSelector": {"disk": "fast"}}}}
    )


@pytest.mark.parametrize(("mode", "beside"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_volume_of_one_node_keeps_all_pods_on_it(render: Render, mode: str, beside: bool) -> None:
    """With a shared volume executors may run on any node."""
    objects = render({"pipeline": {"storage": {"accessMode": mode}}}, base="executors")
    assert one(objects, "PersistentVolumeClaim", NAME)["spec"]["accessModes"] == [mode]
    affinity = executor_pod(objects)["spec"].get("affinity")
    assert (affinity is not None) == beside
    if affinity is not None:
        (term,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        driver = one(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
        assert term["topologyKey"] == "kubernetes.io/hostname"
        assert term["labelSelector"]["matchLabels"].items() <= driver.items()


def test_object_store_needs_no_volume(render: Render) -> None:
    """This holds if both tables and checkpoints are there."""
    more: dict[str, Any] = {"pipeline": {"tables": "s3a://tables/wordcount"}}
    objects = render(more, base="executors")
    assert not [each for each in objects if each["kind"] == "PersistentVolumeClaim"]
    assert {"name": "data", "emptyDir": {}} in executor_pod(objects)["spec"]["volumes"]
    more["pipeline"]["checkpoints"] = "/data/checkpoints"
    assert one(render(more, base="executors"), "PersistentVolumeClaim", NAME)


def test_own_spark_settings_win(render: Render) -> None:
    """All values become text. The settings that Spark needs remain."""
    own = {"spark.authenticate": False, "spark.task.maxFailures": 8}
    for base, found in (
        ("executors", spark_conf),
        ("operator", lambda objects: application(objects)["sparkConf"]),
    ):
        conf = found(render({"pipeline": {"sparkConf": own}}, base=base))
        assert (conf["spark.authenticate"], conf["spark.task.maxFailures"]) == ("false", "8")
        assert conf["spark.kubernetes.executor.disableConfigMap"] == "true"


def test_driver_and_executors_encrypt_strongly(render: Render) -> None:
    """The settings are those of the pipeline itself, for a Deployment and for the operator."""
    for base, found in (
        ("executors", spark_conf),
        ("operator", lambda objects: application(objects)["sparkConf"]),
    ):
        conf = found(render(base=base))
        assert conf["spark.authenticate"] == conf["spark.network.crypto.enabled"] == "true"
        assert STRONG.items() <= conf.items()


def test_driver_may_reach_the_api_server(render: Render) -> None:
    """The rule applies if egress is restricted. Executors have no such rule."""
    objects = render({"networkPolicy": {"egress": {"enabled": True}}}, base="executors")
    policy = one(objects, "NetworkPolicy", NAME)["spec"]
    selected = policy["podSelector"]["matchLabels"].items()
    assert (
        selected
        <= one(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"].items()
    )
    assert not selected <= executor_pod(objects)["metadata"]["labels"].items()
    assert policy["policyTypes"] == ["Egress"]
    assert policy["egress"] == [{"ports": [{"port": 443}, {"port": 6443}]}]


def test_policy_allows_traffic_between_driver_and_executors(render: Render) -> None:
    """They are pods of one release."""
    objects = render(base="executors")
    policy = one(objects, "NetworkPolicy", "wordcount")["spec"]
    assert {"from": [{"podSelector": policy["podSelector"]}]} in policy["ingress"]
    selected = policy["podSelector"]["matchLabels"].items()
    assert selected <= executor_pod(objects)["metadata"]["labels"].items()
    assert (
        selected
        <= one(objects, "Deployment", NAME)["spec"]["template"]["metadata"]["labels"].items()
    )


def test_spark_application_replaces_the_deployment(render: Render) -> None:
    """The operator submits it again when its driver ends. It has the same image and account."""
    objects = render(base="operator")
    assert not [
        each
        for each in objects
        if each["kind"] == "Deployment" and each["metadata"]["name"] == NAME
    ]
    spec = application(objects)
    assert (spec["type"], spec["mode"], spec["restartPolicy"]["type"]) == (
        "Python",
        "cluster",
        "Always",
    )
    assert spec["image"] == "wordcount-pipeline:0.1.0"
    assert (
        spec["driver"]["serviceAccount"] == one(objects, "RoleBinding", NAME)["subjects"][0]["name"]
    )
    assert spec["executor"]["serviceAccount"] == "wordcount"
    assert spec["executor"]["instances"] == 2
    assert all(isinstance(value, str) for value in spec["sparkConf"].values())


def test_pods_of_a_spark_application_are_valid(render: Render) -> None:
    """They have the names that the operator requires, and the variables of a Deployment."""
    objects = render(base="operator")
    plain = render({"pipeline": {"sparkApplication": {"enabled": False}}}, base="operator")
    spec = application(objects)
    for role in ("driver", "executor"):
        (container,) = spec[role]["template"]["spec"]["containers"]
        assert container["name"] == f"spark-kubernetes-{role}"
        assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= {
            each["name"] for each in container["env"]
        }
        assert_valid(spec[role]["template"])
    told = environment(spec["driver"]["template"]["spec"]["containers"][0])
    told_plain = environment(driver_of(plain))
    assert told == {
        name: value for name, value in told_plain.items() if name != "KSTORM_PIPELINE_SPARK_CONF"
    }
    assert spec["executor"]["labels"]["app.kubernetes.io/component"] == "pipeline-executor"
    shared = spec["sparkConf"].items()
    assert shared <= spark_conf(plain).items()


def test_diagnostic_mode_suspends_a_spark_application(render: Render) -> None:
    """The chart does not control its pods, so they cannot sleep."""
    assert application(render(base="operator"))["suspend"] is False
    assert (
        application(render({"diagnosticMode": {"enabled": True}}, base="operator"))["suspend"]
        is True
    )


def maintaining(objects: Objects) -> dict[str, Any]:
    """Return the pod of the CronJob."""
    return dict(
        one(objects, "CronJob", "wordcount-maintain")["spec"]["jobTemplate"]["spec"]["template"]
    )


def test_maintenance_runs_on_the_schedule_of_the_values(render: Render) -> None:
    """One pod at a time has the driver's tables and checkpoints. The values can disable it."""
    objects = render(
        {"pipeline": {"maintain": {"schedule": "@hourly", "bronzeDays": 30}}}, base="executors"
    )
    spec = one(objects, "CronJob", "wordcount-maintain")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"], spec["suspend"]) == (
        "@hourly",
        "Forbid",
        False,
    )
    (container,) = maintaining(objects)["spec"]["containers"]
    given = environment(container)
    assert container["args"] == ["maintain"]
    assert container["image"] == driver_of(objects)["image"]
    assert given.keys() <= KNOWN
    assert (given["KSTORM_PIPELINE_TABLES"], given["KSTORM_PIPELINE_BRONZE_DAYS"]) == (
        "/data/tables",
        "30",
    )
    assert {"name": "data", "persistentVolumeClaim": {"claimName": NAME}} in maintaining(objects)[
        "spec"
    ]["volumes"]
    assert one(
        render({"diagnosticMode": {"enabled": True}}, base="executors"),
        "CronJob",
        "wordcount-maintain",
    )["spec"]["suspend"]
    none = render({"pipeline": {"maintain": {"enabled": False}}}, base="executors")
    assert not [each for each in none if each["kind"] == "CronJob"]
    assert not [each for each in render() if each["kind"] == "CronJob"]


def test_maintenance_has_the_keys_of_the_object_store(render: Render) -> None:
    """It also has the checkpoints' location, which shows the position in bronze."""
    (container,) = maintaining(render(base="operator"))["spec"]["containers"]
    given = environment(container)
    assert given["KSTORM_PIPELINE_CHECKPOINTS"] == "s3a://tables/wordcount-checkpoints"
    assert json.loads(given["KSTORM_PIPELINE_SPARK_CONF"]) == {
        "spark.hadoop.fs.s3a.endpoint": "https://store.example.com"
    }
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} <= {
        each["name"] for each in container["env"]
    }


@pytest.mark.parametrize(("mode", "beside"), [("ReadWriteOnce", True), ("ReadWriteMany", False)])
def test_maintenance_runs_on_the_node_of_the_volume(
    render: Render, mode: str, beside: bool
) -> None:
    """A shared volume does not restrict the node."""
    objects = render({"pipeline": {"storage": {"accessMode": mode}}}, base="executors")
    affinity = maintaining(objects)["spec"].get("affinity")
    assert affinity == executor_pod(objects)["spec"].get("affinity")
    assert (affinity is not None) == beside


AUDITED = {"pipeline": {"audit": {"enabled": True}}}


def auditing(objects: Objects) -> dict[str, Any]:
    """Return the pod of the CronJob."""
    return dict(
        one(objects, "CronJob", "wordcount-audit")["spec"]["jobTemplate"]["spec"]["template"][
            "spec"
        ]
    )


def test_audit_runs_every_hour_if_enabled(render: Render) -> None:
    """Its pod fails if a message is missing.

    It has the topology, Kafka, ZooKeeper and the tables.
    """
    audit = {"enabled": True, "hours": 3, "expect": 1}
    objects = render(
        {"pipeline": {"audit": audit, "storage": {"accessMode": "ReadWriteOnce"}}}, base="executors"
    )
    spec = one(objects, "CronJob", "wordcount-audit")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"], spec["suspend"]) == (
        "@hourly",
        "Forbid",
        False,
    )
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    (container,) = auditing(objects)["containers"]
    assert container["args"] == ["audit", "--last", "3", "--expect", "1"]
    assert container["image"] == driver_of(objects)["image"]
    given = environment(container)
    assert given.keys() <= KNOWN
    assert given["KSTORM_PIPELINE_TOPOLOGY"] == "wordcount"
    assert given["KSTORM_PIPELINE_ZOOKEEPER"]
    assert (
        given["KSTORM_PIPELINE_TABLES"] == environment(driver_of(objects))["KSTORM_PIPELINE_TABLES"]
    )
    assert auditing(objects)["affinity"] == executor_pod(objects)["spec"]["affinity"]
    assert not [
        each for each in render(base="executors") if each["metadata"]["name"] == "wordcount-audit"
    ]


def test_audit_has_the_kafka_login_of_the_driver(render: Render) -> None:
    """It does not query a ZooKeeper that requires a login.

    Messages after the last finished range then count as not yet due.
    """
    (container,) = auditing(render(AUDITED, base="tls-sasl"))["containers"]
    driver = driver_of(render(base="tls-sasl"))
    same = "KSTORM_PIPELINE_KAFKA_OPTIONS_FILE"
    assert environment(container)[same] == environment(driver)[same]
    mounts = {"kafka", "data", "tmp"}
    assert {each["name"] for each in container["volumeMounts"]} >= mounts
    assert "KSTORM_PIPELINE_ZOOKEEPER" not in environment(container)

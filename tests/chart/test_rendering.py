"""Every CI file renders to objects that Kubernetes accepts and that the restricted profile allows."""

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

from tests.chart.conftest import (
    CHART,
    CI_VALUES,
    KUBERNETES,
    Objects,
    Render,
    containers,
    environment,
    one,
    pod_specs,
)

Helm = Callable[..., subprocess.CompletedProcess[str]]
CUSTOM = {"PodMonitor", "PrometheusRule", "ScaledObject", "SparkApplication"}
OLDEST = "1.27"


def test_there_is_a_ci_file_for_each_deployment_mode() -> None:
    """The tests below use each file."""
    names = {path.name.removesuffix("-values.yaml") for path in CI_VALUES}
    assert names == {"minimal", "tls-sasl", "prod", "keda", "dev", "executors", "operator"}


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_lint_accepts_the_chart(helm: Helm, values: Path) -> None:
    done = helm("lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "-f", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, KUBERNETES])
def test_every_object_is_valid(objects: Objects, version: str) -> None:
    """The schemas of Kubernetes know all fields, and custom resources have known kinds."""
    for each in objects:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


def test_chart_declares_the_oldest_tested_version() -> None:
    """Helm rejects older ones."""
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"


def test_every_object_has_labels_and_namespace(objects: Objects) -> None:
    """The labels are the recommended ones, and no name occurs twice."""
    named = [(each["kind"], each["metadata"]["name"]) for each in objects]
    assert len(set(named)) == len(named)
    for each in objects:
        if each["metadata"]["name"] == "wordcount-extra":
            continue
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "wordcount"
        assert labels["app.kubernetes.io/name"] == "kstorm"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert {
            "app.kubernetes.io/version",
            "app.kubernetes.io/component",
            "helm.sh/chart",
        } <= labels.keys()
        assert each["metadata"]["namespace"] == "words"


def test_pods_pass_the_restricted_profile(objects: Objects) -> None:
    """They do not run as root, gain no privileges and drop all capabilities.

    They have a seccomp profile, a read-only root and only harmless volumes.
    """
    for spec in pod_specs(objects).values():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == 10001
        assert spec["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        kinds = {kind for volume in spec["volumes"] for kind in volume.keys() - {"name"}}
        assert kinds <= {"emptyDir", "configMap", "secret", "persistentVolumeClaim"}
        for container in containers(spec):
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_pods_have_no_unneeded_rights(objects: Objects) -> None:
    """A token needs a Role. There are no service variables.

    The image is configurable, and the termination message has the reason.
    """
    bound = {
        subject["name"]
        for each in objects
        if each["kind"] == "RoleBinding"
        for subject in each["subjects"]
    }
    for name, spec in pod_specs(objects).items():
        asks = (
            "KSTORM_STATEFUL_SET" in environment(spec["containers"][0])
            if name.startswith("StatefulSet/")
            else False
        )
        has_rights = name == "Spark/driver" or spec.get("serviceAccountName") in bound - {
            "wordcount"
        }
        assert spec["automountServiceAccountToken"] is (has_rights or asks), name
        assert spec["enableServiceLinks"] is False, name
        for container in containers(spec):
            assert container["terminationMessagePolicy"] == "FallbackToLogsOnError", name
            if not name.startswith("Spark/"):
                assert re.search(r":[^:/]+$", container["image"]), name
                assert not container["image"].endswith(":latest"), name
                assert {"cpu", "memory"} <= container["resources"]["requests"].keys(), name
                assert "memory" in container["resources"]["limits"], name


def test_every_mount_has_a_volume(objects: Objects) -> None:
    """The pods can write to /tmp and /data."""
    for name, spec in pod_specs(objects).items():
        claims = [
            claim["metadata"]["name"]
            for each in objects
            if name == f"{each['kind']}/{each['metadata']['name']}"
            for claim in each["spec"].get("volumeClaimTemplates", [])
        ]
        volumes = {volume["name"] for volume in spec["volumes"]} | set(claims)
        for container in containers(spec):
            if container["name"].startswith("image-of-"):  # it writes nothing
                continue
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            assert mounts.keys() <= volumes, name
            paths = {mount["mountPath"] for mount in mounts.values() if not mount.get("readOnly")}
            assert {"/tmp", "/data"} <= paths, name


def test_selectors_match_only_their_own_pods(objects: Objects) -> None:
    workloads = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    for each in workloads:
        selector = each["spec"]["selector"]["matchLabels"].items()
        taken = [
            w["metadata"]["name"]
            for w in workloads
            if selector <= w["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert taken == [each["metadata"]["name"]]


def test_headless_service_selects_only_the_topology(objects: Objects) -> None:
    """It selects spouts, bolts and ackers, ready or not.

    It selects neither servers nor the pipeline.
    """
    service = one(objects, "Service", "wordcount")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            template = each["spec"]["template"]
            taken = service["selector"].items() <= template["metadata"]["labels"].items()
            assert taken == (
                template["spec"]["containers"][0]["name"] in ("spout", "bolt", "acker")
            )


def test_release_creates_or_uses_an_account(render: Render) -> None:
    """Its own account mounts a token only for pods that need it."""
    own = one(render(), "ServiceAccount", "wordcount")
    assert own["automountServiceAccountToken"] is False
    objects = render({"serviceAccount": {"create": False, "name": "streams"}})
    assert not [
        each
        for each in objects
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole")
    ]
    assert {spec["serviceAccountName"] for spec in pod_specs(objects).values()} == {"streams"}

"""Every CI file renders to objects that Kubernetes accepts, and that the restricted profile lets run."""

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


def test_there_is_a_file_for_every_way_to_run_it() -> None:
    """So that what is below tries each."""
    names = {path.name.removesuffix("-values.yaml") for path in CI_VALUES}
    assert names == {"minimal", "tls-sasl", "prod", "keda", "dev", "executors", "operator"}


@pytest.mark.parametrize("values", CI_VALUES, ids=lambda path: path.name)
def test_lint(helm: Helm, values: Path) -> None:
    """Helm itself has nothing against it."""
    done = helm("lint", "--strict", "--kube-version", KUBERNETES, str(CHART), "-f", str(values))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", [OLDEST, KUBERNETES])
def test_every_object_is_valid(objects: Objects, version: str) -> None:
    """By the schemas of Kubernetes, no field unknown; custom resources are of kinds that we know."""
    for each in objects:
        if each["kind"] not in CUSTOM:
            kubernetes_validate.validate(each, version, strict=True)


def test_the_oldest_version_is_the_one_that_the_chart_says() -> None:
    """Helm refuses older ones."""
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={OLDEST}.0-0"


def test_every_object_says_whose_it_is(objects: Objects) -> None:
    """The recommended labels, one namespace, and no name twice."""
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
    """Not root, nothing gained, nothing kept, seccomp on, a root that is read-only, only harmless volumes."""
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


def test_pods_have_no_rights_and_no_surprises(objects: Objects) -> None:
    """A token only by a Role, no variables of services, limits on memory, an image that can be chosen, a reason at the end."""
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


def test_what_is_mounted_is_there(objects: Objects) -> None:
    """Every mount has its volume, and /tmp and /data can be written."""
    for name, spec in pod_specs(objects).items():
        claims = [
            claim["metadata"]["name"]
            for each in objects
            if name == f"{each['kind']}/{each['metadata']['name']}"
            for claim in each["spec"].get("volumeClaimTemplates", [])
        ]
        volumes = {volume["name"] for volume in spec["volumes"]} | set(claims)
        for container in containers(spec):
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            assert mounts.keys() <= volumes, name
            paths = {mount["mountPath"] for mount in mounts.values() if not mount.get("readOnly")}
            assert {"/tmp", "/data"} <= paths, name


def test_no_selector_takes_pods_of_another_workload(objects: Objects) -> None:
    """Each workload's selector matches its own template, and no other's."""
    workloads = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    for each in workloads:
        selector = each["spec"]["selector"]["matchLabels"].items()
        taken = [
            w["metadata"]["name"]
            for w in workloads
            if selector <= w["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert taken == [each["metadata"]["name"]]


def test_every_pod_that_has_a_name_in_dns_is_the_topology_s(objects: Objects) -> None:
    """The headless Service takes spouts, bolts and ackers, ready or not, and neither servers nor the pipeline."""
    service = one(objects, "Service", "wordcount")["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)
    for each in objects:
        if each["kind"] in ("Deployment", "StatefulSet"):
            template = each["spec"]["template"]
            taken = service["selector"].items() <= template["metadata"]["labels"].items()
            assert taken == (
                template["spec"]["containers"][0]["name"] in ("spout", "bolt", "acker")
            )


def test_accounts(render: Render) -> None:
    """One of the release's own, whose token is where a pod asks for it alone, or one that is there."""
    own = one(render(), "ServiceAccount", "wordcount")
    assert own["automountServiceAccountToken"] is False
    objects = render({"serviceAccount": {"create": False, "name": "streams"}})
    assert not [
        each
        for each in objects
        if each["kind"] in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole")
    ]
    assert {spec["serviceAccountName"] for spec in pod_specs(objects).values()} == {"streams"}

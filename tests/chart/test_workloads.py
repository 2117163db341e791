"""The workload of a component: its kind, name, labels, settings, start and end."""

import json
from typing import Any

import pytest

from kstorm.runtime.base.settings import Settings
from kstorm.topology import Config
from tests.chart.conftest import Objects, Render, containers, environment, one, pod_specs

RELEASE_SECS = 60.0  # the release of tasks may take this long (driver.py)
FLUSH_SECS = 10.0  # then the last records (driver.py)


@pytest.mark.parametrize(
    ("name", "kind", "claims"),
    [
        ("wordcount-sentences", "StatefulSet", False),
        ("wordcount-split", "Deployment", False),
        ("wordcount-count", "StatefulSet", True),
        ("wordcount-sink", "Deployment", False),
        ("wordcount-acker", "StatefulSet", True),
    ],
)
def test_kind_of_workload_and_volume(render: Render, name: str, kind: str, claims: bool) -> None:
    """A component whose pods keep their names is a StatefulSet. A component with a table has a
    volume.

    Its pods start in parallel.
    """
    found = one(render(), kind, name)
    assert ("volumeClaimTemplates" in found["spec"]) == claims
    if kind == "StatefulSet":
        assert found["spec"]["podManagementPolicy"] == "Parallel"
        assert (
            found["spec"]["serviceName"]
            == one(render(), "Service", "wordcount")["metadata"]["name"]
        )
    if claims:
        kept = found["spec"]["persistentVolumeClaimRetentionPolicy"]
        assert kept == {"whenDeleted": "Retain", "whenScaled": "Delete"}


def test_process_identity_is_the_pod_name(render: Render) -> None:
    """A Deployment's process leaves its group when it is stopped.

    A StatefulSet's process reads the scale first.
    """
    for name, spec in pod_specs(render()).items():
        kind = name.partition("/")[0]
        if kind in ("Deployment", "StatefulSet"):
            (container,) = spec["containers"]
            assert (
                environment(container)["KSTORM_LEAVE_ON_STOP"] == str(kind == "Deployment").lower()
            )
            its_set = name.partition("/")[2] if kind == "StatefulSet" else None
            assert environment(container).get("KSTORM_STATEFUL_SET") == its_set
            instance = next(each for each in container["env"] if each["name"] == "KSTORM_INSTANCE")
            assert instance["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_release_name_is_the_same_in_the_job_and_in_pods(render: Render) -> None:
    """The Job distinguishes the pods of its release by it. It stays the same over upgrades."""
    for base in ("minimal", "dev"):
        for name, spec in pod_specs(render(base=base)).items():
            for container in containers(spec):
                if "KSTORM_TOPOLOGY" in environment(container):
                    assert environment(container)["KSTORM_RELEASE"] == "words/wordcount", name


def test_services_limit_malloc_arenas(objects: Objects) -> None:
    """glibc has two in every service."""
    for name, spec in pod_specs(objects).items():
        for container in spec["containers"]:
            if container["name"] in ("spout", "bolt", "acker"):
                assert environment(container)["MALLOC_ARENA_MAX"] == "2", name


def test_every_variable_is_a_setting(objects: Objects) -> None:
    """A bolt has a component, and an acker has none."""
    known = {f"KSTORM_{name.upper()}" for name in Settings.__dataclass_fields__}
    known |= {f"{name}_FILE" for name in ("KSTORM_KAFKA_PROPERTIES", "KSTORM_ZOOKEEPER_AUTH")}
    for name, spec in pod_specs(objects).items():
        for container in spec["containers"]:
            if container["name"] in ("spout", "bolt", "acker"):
                given = {
                    each["name"] for each in container["env"] if each["name"].startswith("KSTORM_")
                }
                assert given <= known, name
                assert ("KSTORM_COMPONENT" in given) == (container["name"] != "acker"), name


def test_workloads_and_pods_have_the_labels_that_commands_select(render: Render) -> None:
    """Objects outside the topology do not have them."""
    objects = render(base="dev", release="hello")
    shown = {}
    for each in objects:
        labels = each["metadata"]["labels"]
        if each["kind"] in ("Deployment", "StatefulSet") and "kstorm.io/kind" in labels:
            pods = each["spec"]["template"]["metadata"]["labels"]
            assert {
                key: pods[key] for key in labels if key.startswith("kstorm.io/")
            }.items() <= labels.items()
            shown[each["metadata"]["name"]] = (
                labels["kstorm.io/component"],
                labels["kstorm.io/kind"],
            )
            assert labels["kstorm.io/topology"] == "hello"
    assert shown == {
        "hello-lines": ("lines", "spout"),
        "hello-split": ("split", "bolt"),
        "hello-count": ("count", "bolt"),
        "hello-sink": ("sink", "bolt"),
        "hello-acker": ("acker", "acker"),
    }


def test_probes_match_recovery_and_event_loop(render: Render) -> None:
    """Startup allows for a long recovery.

    Liveness checks only the event loop. Readiness checks the tasks.
    """
    (container,) = one(render(), "StatefulSet", "wordcount-count")["spec"]["template"]["spec"][
        "containers"
    ]
    pages = {
        name: container[f"{name}Probe"]["httpGet"]["path"]
        for name in ("startup", "liveness", "readiness")
    }
    assert pages == {"startup": "/readyz", "liveness": "/livez", "readiness": "/readyz"}
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 600
    liveness = container["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] > 30, (
        "the event loop may be busy for 30 s"
    )


def test_grace_period_covers_the_end_of_a_process(render: Render) -> None:
    """A process drains, releases its tasks and delivers its last records."""
    needed = max(Config().topology_drain_timeout_secs, RELEASE_SECS) + FLUSH_SECS
    for name in ("wordcount-split", "wordcount-sink"):
        spec = one(render(), "Deployment", name)["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > needed


def test_values_of_a_component_override_the_defaults(render: Render) -> None:
    """This includes false and zero."""
    objects = render(
        {
            "defaults": {
                "podDisruptionBudget": {"enabled": True},
                "resources": {"limits": {"memory": "1Gi"}},
            },
            "components": {
                "sentences": {"replicas": 2},
                "split": {"replicas": 2, "resources": {"requests": {"cpu": 2}}},
                "count": {"replicas": 2, "persistence": {"enabled": False}},
                "sink": {"podDisruptionBudget": {"enabled": False}, "minReadySeconds": 0},
            },
            "ackers": {"replicas": 2},
        }
    )
    budgets = {
        each["metadata"]["name"] for each in objects if each["kind"] == "PodDisruptionBudget"
    }
    assert budgets == {f"wordcount-{name}" for name in ("sentences", "split", "count", "acker")}
    sink, split = (
        one(objects, "Deployment", "wordcount-sink"),
        one(objects, "Deployment", "wordcount-split"),
    )
    assert (sink["spec"]["minReadySeconds"], split["spec"]["minReadySeconds"]) == (0, 5)
    assert split["spec"]["template"]["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": 2, "memory": "256Mi"},
        "limits": {"memory": "1Gi"},
    }
    count = one(objects, "StatefulSet", "wordcount-count")["spec"]
    assert "volumeClaimTemplates" not in count
    assert {"name": "data", "emptyDir": {}} in count["template"]["spec"]["volumes"]


def test_image_has_registry_tag_and_digest(render: Render) -> None:
    """A component may have its own image. The default tag is the chart's version."""
    objects = render(base="prod")
    digest = "sha256:" + "0123456789abcdef" * 4
    images = {name: spec["containers"][0]["image"] for name, spec in pod_specs(objects).items()}
    assert images == {
        "Deployment/wordcount-traces": f"registry.example.com/team/wordcount-spout@{digest}",
        "StatefulSet/wordcount-sentences": f"registry.example.com/team/wordcount-spout@{digest}",
        "Deployment/wordcount-split": "registry.example.com/team/wordcount-bolt:1.4.2",
        "StatefulSet/wordcount-count": "registry.example.com/team/wordcount-bolt:1.4.2",
        "Deployment/wordcount-sink": "registry.example.com/team/wordcount-sink:1.4.2",
        "Deployment/wordcount-ui": "registry.example.com/team/kstorm-ui:1.4.2",
        "StatefulSet/wordcount-acker": "registry.example.com/team/kstorm-acker:1.4.2",
        "Job/wordcount-prepare": f"registry.example.com/team/wordcount-spout@{digest}",
        "Pod/wordcount-test": f"registry.example.com/team/wordcount-spout@{digest}",
    }
    plain = one(render(), "Deployment", "wordcount-split")["spec"]["template"]["spec"][
        "containers"
    ][0]
    assert plain["image"] == "kstorm-bolt:0.1.0"


def test_component_ids_become_dns_names(render: Render) -> None:
    """Labels and variables keep the original id."""
    objects = render({"components": {"Split_Lines": {"kind": "bolt", "tasks": 1}}})
    found = one(objects, "Deployment", "wordcount-split-lines")
    assert found["metadata"]["labels"]["kstorm.io/component"] == "Split_Lines"
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert environment(container)["KSTORM_COMPONENT"] == "Split_Lines"


def test_topology_without_tracking_has_no_ackers(render: Render) -> None:
    names = [each["metadata"]["name"] for each in render({"ackers": {"tasks": 0, "replicas": 0}})]
    assert "wordcount-acker" not in names


def test_only_new_code_restarts_pods(render: Render) -> None:
    """Pods contain neither the revision nor the chart's version."""

    def template(text: str) -> dict[str, Any]:
        objects = render({"topologyFiles": {"examples/wordcount/topology.py": text}})
        return dict(one(objects, "Deployment", "wordcount-split")["spec"]["template"])

    one_text, other = template("a = 1\n"), template("a = 2\n")
    assert one_text != other
    one_text["metadata"]["annotations"]["checksum/topology"] = other["metadata"]["annotations"][
        "checksum/topology"
    ]
    assert one_text == other
    assert "0.1.0" not in json.dumps(one_text["metadata"])


def test_new_topology_yaml_restarts_pods(render: Render) -> None:
    def checksum(text: str) -> str:
        objects = render({"topology": "t.yaml", "topologyFiles": {"t.yaml": text}})
        found = one(objects, "Deployment", "wordcount-split")["spec"]["template"]["metadata"][
            "annotations"
        ]
        return str(found["checksum/topology"])

    assert checksum("name: a") != checksum("name: b")


def test_upgrade_changes_no_immutable_field(render: Render) -> None:
    """Kubernetes would reject it.

    These are selectors and a StatefulSet's claims, which contain no version.
    """
    fixed = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
    changed = {
        "topologyId": "{{ .Release.Revision }}",
        "image": {"tag": "2.0.0"},
        "log": {"level": "DEBUG"},
        "defaults": {"resources": {"limits": {"memory": "1Gi"}}, "podLabels": {"team": "words"}},
        "components": {"split": {"replicas": 4}, "count": {"replicas": 2}},
    }
    before, after = render(base="dev"), render(changed, base="dev")
    for each in before:
        if each["kind"] in ("Deployment", "StatefulSet"):
            now = one(after, each["kind"], each["metadata"]["name"])["spec"]
            kept = {field: each["spec"].get(field) for field in fixed}
            assert {field: now.get(field) for field in fixed} == kept
            assert "0.1.0" not in json.dumps(kept)


def test_diagnostic_mode_makes_containers_sleep(render: Render) -> None:
    """They have no probes."""
    for name, spec in pod_specs(render({"diagnosticMode": {"enabled": True}})).items():
        if name.startswith(("Deployment", "StatefulSet")):
            (container,) = spec["containers"]
            assert container["command"] == ["sleep", "infinity"]
            assert not {"startupProbe", "livenessProbe", "readinessProbe"} & container.keys()


def test_spout_without_pods_is_installed(render: Render) -> None:
    """The topology can wait for offsets of Storm, and emits nothing meanwhile."""
    found = render({"components": {"sentences": {"replicas": 0}}})
    assert one(found, "StatefulSet", "wordcount-sentences")["spec"]["replicas"] == 0

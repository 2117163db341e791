"""What becomes of a component: its kind of workload, its name and labels, how it gets its settings, how it is started and ended."""

import json
from typing import Any

import pytest

from kstorm.runtime.service.settings import Settings
from kstorm.topology import Config
from tests.chart.conftest import Objects, Render, containers, environment, one, pod_specs

RELEASE_SECS = 60.0  # what lets go of tasks may take so long (driver.py), and then
FLUSH_SECS = 10.0  # the last records (driver.py)


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
def test_kinds(render: Render, name: str, kind: str, claims: bool) -> None:
    """What comes back under its name is a StatefulSet, and what has a table has a volume; its pods start side by side."""
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


def test_how_a_process_comes_back(render: Render) -> None:
    """By its pod's name; a Deployment's leaves its group when it is stopped, and a StatefulSet's asks whether to."""
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


def test_whose_a_process_is(render: Render) -> None:
    """The same of the Job and of the pods, and over upgrades: by it the Job tells its own release's pods from another's."""
    for base in ("minimal", "dev"):
        for name, spec in pod_specs(render(base=base)).items():
            for container in containers(spec):
                if "KSTORM_TOPOLOGY" in environment(container):
                    assert environment(container)["KSTORM_RELEASE"] == "words/wordcount", name


def test_memory_is_not_lost_to_arenas(objects: Objects) -> None:
    """Of glibc, of which every service has two."""
    for name, spec in pod_specs(objects).items():
        for container in spec["containers"]:
            if container["name"] in ("spout", "bolt", "acker"):
                assert environment(container)["MALLOC_ARENA_MAX"] == "2", name


def test_every_variable_is_a_setting(objects: Objects) -> None:
    """Nothing is set that no service reads; a bolt knows its component, an acker has none."""
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


def test_labels_that_the_commands_select_by(render: Render) -> None:
    """Of the workload and of its pods, and never of what is no part of the topology."""
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


def test_probes(render: Render) -> None:
    """Startup lasts as long as a recovery may; liveness asks for the event loop alone; readiness for the tasks."""
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


def test_the_end_is_given_time(render: Render) -> None:
    """For what a process does at its end: drain, let go of its tasks, deliver."""
    needed = max(Config().topology_drain_timeout_secs, RELEASE_SECS) + FLUSH_SECS
    for name in ("wordcount-split", "wordcount-sink"):
        spec = one(render(), "Deployment", name)["spec"]["template"]["spec"]
        assert spec["terminationGracePeriodSeconds"] > needed


def test_defaults_and_what_a_component_says_itself(render: Render) -> None:
    """A component's own values are added to the defaults, and win, be they false or zero."""
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


def test_images(render: Render) -> None:
    """Registry, tag and digest; a component's own image; the chart's version if nothing is said."""
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


def test_ids_become_names(render: Render) -> None:
    """A component's id may be no DNS label; the id itself stays in labels and variables."""
    objects = render({"components": {"Split_Lines": {"kind": "bolt", "tasks": 1}}})
    found = one(objects, "Deployment", "wordcount-split-lines")
    assert found["metadata"]["labels"]["kstorm.io/component"] == "Split_Lines"
    (container,) = found["spec"]["template"]["spec"]["containers"]
    assert environment(container)["KSTORM_COMPONENT"] == "Split_Lines"


def test_no_ackers(render: Render) -> None:
    """A topology without tracking has none."""
    names = [each["metadata"]["name"] for each in render({"ackers": {"tasks": 0, "replicas": 0}})]
    assert "wordcount-acker" not in names


def test_new_code_restarts_pods(render: Render) -> None:
    """And nothing else does: neither the revision nor the chart's version is in a pod."""

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


def test_new_wiring_restarts_pods(render: Render) -> None:
    """A topology's YAML file is its code."""

    def checksum(text: str) -> str:
        objects = render({"topology": "t.yaml", "topologyFiles": {"t.yaml": text}})
        found = one(objects, "Deployment", "wordcount-split")["spec"]["template"]["metadata"][
            "annotations"
        ]
        return str(found["checksum/topology"])

    assert checksum("name: a") != checksum("name: b")


def test_an_upgrade_changes_nothing_that_kubernetes_keeps(render: Render) -> None:
    """Else it would be refused: what selects pods, and what a StatefulSet asks of volumes, which no version is in."""
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


def test_diagnostic_mode(render: Render) -> None:
    """Containers sleep, and nobody asks them how they are."""
    for name, spec in pod_specs(render({"diagnosticMode": {"enabled": True}})).items():
        if name.startswith(("Deployment", "StatefulSet")):
            (container,) = spec["containers"]
            assert container["command"] == ["sleep", "infinity"]
            assert not {"startupProbe", "livenessProbe", "readinessProbe"} & container.keys()

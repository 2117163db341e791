"""`kstorm topology|scale|restart|logs` with the real Kubernetes client on a stub of the API server."""

import json
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster with a word count of four components, whose pods respond."""
    with KubernetesStub() as stub:
        stub.add("sentences", "spout")
        stub.add("split", "bolt", 2)
        stub.add("count", "bolt")
        stub.add("acker", "acker")
        stub.pages = {
            "wc-sentences-0": page("spout", [0, 1], 2, acked=1200, pending=7, remark="deactivated"),
            "wc-split-0": page(
                "bolt", [0, 2], 4, acked=30, latency_counts=[0, 98, 0, 0, 2], **erred(0, 4e3)
            ),
            "wc-split-1": page(
                "bolt",
                [1],
                4,
                input_waits="a transaction is open",
                acked=3,
                failed=1,
                **erred(1, 130.0),
            ),
            "wc-count-0": page("bolt", [0, 1, 2, 3], 4),
            "wc-acker-0": page("acker", [0, 1, 2, 3], 4),
        }
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        monkeypatch.setenv("COLUMNS", "100")
        yield stub


def page(kind: str, tasks: list[int], num_tasks: int, **more: Any) -> dict[str, Any]:
    """Builds a service's `/status`."""
    counts = dict.fromkeys(
        ("emitted", "executed", "acked", "failed", "pending", "frames_in", "errors"), 0
    )
    known = {
        "kind": kind,
        "tasks": tasks,
        "num_tasks": num_tasks,
        "not_ready": "",
        "last_error": "",
        **counts,
    }
    return {**known, "latency_counts": [], **more}


def erred(task: int, seconds_ago: float) -> dict[str, Any]:
    """Builds the fields of the last error in `/status`."""
    return {"last_error": "KeyError", "last_error_task": task, "last_error_age": seconds_ago}


def refused(kstorm: Command, *arguments: str) -> str:
    """Returns the single line of the error."""
    code, told, error = kstorm(*arguments)
    assert (code, told, error.count("\n")) == (2, "", 1)
    return error.removeprefix("kstorm: ").rstrip("\n")


def test_list(cluster: KubernetesStub, kstorm: Command) -> None:
    """It lists the context's namespace or all. Objects without kstorm's labels are ignored."""
    cluster.add("lines", "spout", topology="hello", namespace="tests", release="hi")
    cluster.add("web", "bolt", release="shop", labels={"kstorm.io/topology": "shop"})
    assert kstorm("topology", "list")[1].split() == [
        *("topology", "namespace", "release", "ready", "components"),
        *("wordcount", "streams", "wc", "5/5", "sentences,", "count,", "split,", "acker"),
    ]
    found = json.loads(kstorm("topology", "list", "-A", "-o", "json")[1])
    assert [each["topology"] for each in found] == ["wordcount", "hello"]
    assert found[1] == {
        "topology": "hello",
        "namespace": "tests",
        "release": "hi",
        "components": ["lines"],
        "pods": 1,
        "pods_ready": 1,
    }
    assert (
        kstorm("topology", "list", "-n", "empty")[1]
        == "there is no topology in the namespace empty\n"
    )


def test_describe(cluster: KubernetesStub, kstorm: Command) -> None:
    """It shows workloads, images, autoscalers, and the pods with their problems."""
    cluster.autoscale("split")
    cluster.trouble("wc-split-1", "ImagePullBackOff", "no such image")
    shown = kstorm("topology", "describe", "wordcount")[1]
    assert shown.startswith("wordcount: namespace streams, release wc (kstorm-0.1.0)\n")
    assert (
        "bolt split: deployment/wc-split, 2 wanted, scaled by the HorizontalPodAutoscaler hpa-split (1 to 4)"
        in shown
    )
    assert "ImagePullBackOff: no such image" in shown
    found = json.loads(kstorm("topology", "describe", "wordcount", "-o", "json")[1])
    assert [each["workload"]["image"] for each in found][-1] == "kstorm-acker:1"
    assert found[2]["autoscaler"]["most"] == 4
    assert [pod["ready"] for pod in found[2]["pods"]] == [True, False]


def test_status(cluster: KubernetesStub, kstorm: Command) -> None:
    """It adds up each component's pods, and lists the problems and the latest error."""
    cluster.trouble("wc-count-0", "CrashLoopBackOff", "back-off 5m0s")
    code, shown, _ = kstorm("topology", "status", "wordcount", "--window", "0")
    lines = shown.splitlines()
    assert code == 0
    assert [line.split() for line in lines[1:4]] == [
        ["sentences", "spout", "1/1", "2/2", "1,200", "0", "7", "–", "–"],
        ["count", "bolt", "0/1", "0/–", "0", "0", "0", "–", "–"],
        ["split", "bolt", "2/2", "3/4", "33", "1", "0", "1", "ms", "3", "ms"],
    ]
    assert lines[5:] == [
        "wc-sentences-0: deactivated",
        "wc-split-1: a transaction is open",
        "wc-count-0: CrashLoopBackOff: back-off 5m0s",
        "split: KeyError in task 1 (2 min ago)",
    ]
    found = json.loads(kstorm("topology", "status", "wordcount", "--output", "json")[1])
    assert found[0]["remarks"] == {"wc-sentences-0": "deactivated"}
    assert found[1]["not_ready"] == {"wc-count-0": "CrashLoopBackOff: back-off 5m0s"}
    assert (found[1]["tasks"], found[2]["tasks"], found[2]["tasks_assigned"]) == (None, 4, 3)


def test_status_names_a_busy_component_after_its_second_look(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    def answer(pod: str, page: str, query: dict[str, str]) -> tuple[int, Any]:
        return 200, {**cluster.pages[pod], "instance": pod, **busy.get(pod, dict)()}

    busy = {"wc-count-0": lambda: {"busy_seconds": time.monotonic()}}
    cluster.on_page = answer
    shown = kstorm("topology", "status", "wordcount", "--window", "0.5")[1]
    assert shown.splitlines()[-1].startswith("count is the bottleneck: ")
    assert cluster.commands == []  # the lag would need a process in a pod


def test_status_names_the_pod_that_does_not_answer(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server waits for a hung process. The other pods are shown as usual."""
    monkeypatch.setattr("kstorm.operations.kubernetes.cluster._STATUS_PATIENCE", (5.0, 1.0))
    ended = threading.Event()

    def answer(pod: str, page: str, query: dict[str, str]) -> tuple[int, Any] | None:
        return (200, lambda _: ended.wait(20)) if pod == "wc-split-1" else None

    cluster.on_page = answer
    try:
        code, shown, _ = kstorm("topology", "status", "wordcount", "--window", "0")
    finally:
        ended.set()
    assert code == 0
    assert "wc-split-1: does not answer" in shown
    assert "wc-sentences-0: deactivated" in shown


def test_status_asks_the_pods_of_all_components_at_once(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    """So several pods that hang cost the time of one."""
    together = threading.Barrier(len(cluster.pages))

    def reply(handler: BaseHTTPRequestHandler) -> None:
        together.wait(4)
        handler.send_error(503)

    cluster.on_page = lambda pod, page, query: (503, reply)
    shown = kstorm("topology", "status", "wordcount", "--window", "0")[1]
    assert not together.broken
    assert "5 of 5 processes: does not answer\n" in shown


def test_an_outage_is_one_line_of_the_status(cluster: KubernetesStub, kstorm: Command) -> None:
    """The processes notice the outage at different times."""
    for second, name in enumerate(cluster.pages):
        why = f"Kafka has been unreachable since 18:37:{33 + second}: Local: Timed out"
        cluster.pages[name] = page("bolt", [], 4, not_ready=why)
    lines = kstorm("topology", "status", "wordcount", "--window", "0")[1].splitlines()
    assert lines[5:] == [
        "5 of 5 processes: Kafka has been unreachable since 18:37:33: Local: Timed out"
    ]


def test_status_names_an_image_that_stops_an_upgrade(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    """helm only reports a timeout. The Job's pod waits for the images of all workloads."""
    labels = {"app.kubernetes.io/instance": "wc", "app.kubernetes.io/component": "prepare"}
    pod = cluster.add_pod("wc-prepare-x7k", labels, "prepare")
    (container,) = pod["status"]["containerStatuses"]
    waiting = {"reason": "ErrImagePull", "message": 'no image "kstorm-bolt:typo"'}
    pod["status"]["initContainerStatuses"] = [
        {**container, "name": "image-of-acker", "state": {"terminated": {"exitCode": 0}}},
        {**container, "name": "image-of-split", "ready": False, "state": {"waiting": waiting}},
    ]
    container |= {"ready": False, "state": {"waiting": {"reason": "PodInitializing"}}}
    says = 'wc-prepare-x7k: ErrImagePull: no image "kstorm-bolt:typo"'
    shown = kstorm("topology", "status", "wordcount", "--window", "0")[1]
    assert shown.splitlines()[-1] == f"the last upgrade has changed nothing: {says}"
    told = refused(kstorm, "topology", "status", "words")
    assert told.endswith(f"; an install or upgrade in this namespace does not continue: {says}")


@pytest.mark.parametrize("reason", ["ContainerCreating", "PodInitializing"])
def test_an_upgrade_that_is_being_checked_is_no_problem(
    cluster: KubernetesStub, kstorm: Command, reason: str
) -> None:
    labels = {"app.kubernetes.io/instance": "wc", "app.kubernetes.io/component": "prepare"}
    (container,) = cluster.add_pod("wc-prepare-x7k", labels, "prepare")["status"][
        "containerStatuses"
    ]
    container |= {"ready": False, "state": {"waiting": {"reason": reason}}}
    assert "upgrade" not in kstorm("topology", "status", "wordcount", "--window", "0")[1]
    assert "upgrade" not in refused(kstorm, "topology", "status", "words")


def test_status_has_the_last_words_of_a_pod_that_keeps_ending(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    cluster.trouble("wc-count-0", "CrashLoopBackOff", "back-off 5m0s restarting failed container")
    pod = next(each for each in cluster.pods if each["metadata"]["name"] == "wc-count-0")
    message = "starting\nkstorm-bolt: KSTORM_COMPONENT is missing\n"
    pod["status"]["containerStatuses"][0]["lastState"] = {
        "terminated": {"exitCode": 2, "message": message}
    }
    assert (
        "wc-count-0: CrashLoopBackOff: kstorm-bolt: KSTORM_COMPONENT is missing\n"
        in kstorm("topology", "status", "wordcount", "--window", "0")[1]
    )


def test_few_pods_with_one_trouble_are_named(cluster: KubernetesStub, kstorm: Command) -> None:
    for name in ("wc-split-0", "wc-split-1"):
        cluster.trouble(name, "ImagePullBackOff", "no such image")
    assert (
        "wc-split-0, wc-split-1: ImagePullBackOff: no such image\n"
        in kstorm("topology", "status", "wordcount", "--window", "0")[1]
    )


def test_status_shows_why_a_spout_reads_nothing(cluster: KubernetesStub, kstorm: Command) -> None:
    cluster.pages["wc-sentences-0"] |= {"remark": "", "unread": "topic 'lines' cannot be read"}
    assert (
        "wc-sentences-0: reads nothing: topic 'lines' cannot be read\n"
        in kstorm("topology", "status", "wordcount", "--window", "0")[1]
    )


def test_watched_status_is_a_line_of_json_per_look(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        if len(rests) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        "kstorm.cli.status.time", SimpleNamespace(sleep=rest)
    )  # other threads may sleep
    code, shown, _ = kstorm("topology", "status", "wordcount", "--watch", "-o", "json")
    assert (code, rests) == (0, [2.0, 2.0])
    assert [json.loads(line)[0]["component"] for line in shown.splitlines()] == [
        "sentences",
        "sentences",
    ]


def test_scale(cluster: KubernetesStub, kstorm: Command) -> None:
    """The scale subresource is enough. Pods beyond the tasks are standbys."""
    assert kstorm("scale", "wordcount", "split=4", "acker=2") == (
        0,
        "split: 2 → 4\nacker: 1 → 2\n",
        "",
    )
    assert cluster.patches == [
        ("wc-split", {"spec": {"replicas": 4}}),
        ("wc-acker", {"spec": {"replicas": 2}}),
    ]
    assert any(
        "PATCH /apis/apps/v1/namespaces/streams/statefulsets/wc-acker/scale" in each
        for each in cluster.requests
    )
    assert kstorm("scale", "wordcount", "__acker=1")[:2] == (0, "acker: 2 → 1\n"), (
        "as the topology calls them"
    )
    warned = kstorm("scale", "wordcount", "split=6")
    assert warned == (
        0,
        "split: 4 → 6\n",
        "kstorm: 'split' has 4 tasks: 2 pods stand by until another dies\n",
    )


def test_scale_to_0_warns(cluster: KubernetesStub, kstorm: Command) -> None:
    """It is allowed, but differs from `deactivate`."""
    told = "kstorm: 'split' will have no pod: its tuples will wait, or time out\n"
    assert kstorm("scale", "wordcount", "split=0") == (0, "split: 2 → 0\n", told)


def test_scale_needs_no_right_to_read_the_status(cluster: KubernetesStub, kstorm: Command) -> None:
    cluster.denied = {("get", "pods/proxy")}
    assert kstorm("scale", "wordcount", "split=6") == (0, "split: 2 → 6\n", "")


@pytest.mark.parametrize(
    ("scaled_object", "by"),
    [
        (None, "the HorizontalPodAutoscaler hpa-split (1 to 4)"),
        ("wc-split", "KEDA's ScaledObject wc-split (1 to 4)"),
    ],
)
def test_autoscaled_component_is_not_scaled(
    cluster: KubernetesStub, kstorm: Command, scaled_object: str | None, by: str
) -> None:
    """The other named components are not scaled either."""
    cluster.autoscale("split", scaled_object=scaled_object)
    told = refused(kstorm, "scale", "wordcount", "count=2", "split=3")
    assert told.startswith(
        f"'split' is scaled by {by}, which would undo the change; nothing was changed"
    )
    assert cluster.patches == []


def test_autoscaled_component_can_be_started_from_0(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    """The HorizontalPodAutoscaler does nothing without a pod, but KEDA does."""
    cluster.add("sink", "bolt", 0)
    cluster.autoscale("sink")
    assert kstorm("scale", "wordcount", "sink=1")[:2] == (0, "sink: 0 → 1\n")
    cluster.add("join", "bolt", 0)
    cluster.autoscale("join", scaled_object="wc-join")
    assert "'join' is scaled by KEDA's ScaledObject" in refused(
        kstorm, "scale", "wordcount", "join=1"
    )


def test_restart(cluster: KubernetesStub, kstorm: Command) -> None:
    """It restarts one component or all, with kubectl's annotation on the pod template."""
    assert kstorm("restart", "wordcount", "split")[1] == "split: deployment/wc-split restarts\n"
    ((name, patch),) = cluster.patches
    assert name == "wc-split"
    assert list(patch["spec"]["template"]["metadata"]["annotations"]) == [
        "kubectl.kubernetes.io/restartedAt"
    ]
    assert kstorm("restart", "wordcount")[0] == 0
    assert [name for name, _ in cluster.patches[1:]] == [
        "wc-sentences",
        "wc-count",
        "wc-split",
        "wc-acker",
    ]


@pytest.mark.parametrize("follow", [False, True])
def test_logs(cluster: KubernetesStub, kstorm: Command, follow: bool) -> None:
    """Each line has its pod. A pod without a log does not hide the others."""
    cluster.lines = {"wc-split-0": ["one", "two"], "wc-count-0": ["three"]}
    options = ["--follow"] if follow else []
    code, shown, error = kstorm("logs", "wordcount", "split", "count", *options)
    assert (code, sorted(shown.splitlines())) == (
        0,
        ["[wc-count-0] three", "[wc-split-0] one", "[wc-split-0] two"],
    )
    assert error == (
        'kstorm: wc-split-1: Kubernetes refuses: container "bolt" in pod "wc-split-1" is waiting to start\n'
    )
    assert kstorm("logs", "wordcount", "split", "--tail", "1", *options)[1] == "[wc-split-0] two\n"


def test_a_wrong_component(cluster: KubernetesStub, kstorm: Command) -> None:
    """The other components are not changed either."""
    has = "the topology 'wordcount' has no component 'spilt'; it has sentences, count, split, acker"
    assert refused(kstorm, "scale", "wordcount", "split=3", "spilt=3") == has
    assert refused(kstorm, "restart", "wordcount", "split", "spilt") == has
    assert (
        refused(kstorm, "scale", "wordcount", "split")
        == "split: give COMPONENT=PODS, such as split=4"
    )
    assert cluster.patches == []


def test_component_with_a_topology_prefix_is_explained(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    there = "there is no topology '{}' in the namespace streams; give components as separate words: wordcount, followed by "
    names = "some of sentences, count, split, acker"
    for word in ("wordcount:splitt=3", "wordcount:split=3"):
        assert refused(kstorm, "scale", word) == there.format(word) + names
    assert refused(kstorm, "restart", "wordcount:split") == there.format("wordcount:split") + names
    assert refused(kstorm, "scale", "wordcount").endswith(
        f"Give COMPONENT=PODS, such as split=4, for {names}"
    )
    assert cluster.patches == []


def test_wrong_name_lists_alternatives(cluster: KubernetesStub, kstorm: Command) -> None:
    """The message lists the topologies, the release with that name, or the other namespace."""
    there = "there is no topology 'x' in the namespace streams"
    assert refused(kstorm, "restart", "x") == f"{there}; it has wordcount"
    assert refused(kstorm, "restart", "wc").endswith(
        "; the release 'wc' runs the topology wordcount"
    )
    cluster.add("lines", "spout", topology="x", namespace="one")
    assert (
        refused(kstorm, "restart", "x") == f"{there}, but there is one in one: add --namespace one"
    )
    cluster.add("lines", "spout", topology="x", namespace="two")
    assert (
        refused(kstorm, "restart", "x")
        == f"{there}, but there are some in one and two: choose one with --namespace"
    )
    cluster.denied = {("list", "deployments")}
    assert "may not list deployments in the namespace streams" in refused(kstorm, "restart", "x")


def test_an_empty_namespace(cluster: KubernetesStub, kstorm: Command) -> None:
    """A context without a namespace means `default`."""
    told = refused(kstorm, "restart", "y", "--context", "other")
    assert told == "there is no topology 'y' in the namespace default, nor any other"


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({}, "shop-web"),
        ({"app.kubernetes.io/instance": "shop"}, "shop"),
        ({"kstorm.io/topology": "shop", "kstorm.io/kind": "bolt"}, "shop"),
    ],
)
def test_workloads_without_the_labels_are_ignored(
    cluster: KubernetesStub, kstorm: Command, labels: dict[str, str], name: str
) -> None:
    cluster.add("web", "bolt", release="shop", labels=labels)
    for command in (["restart", name], ["scale", name, "web=0"], ["kill", name], ["logs", name]):
        told = refused(kstorm, *command)
        assert told.endswith(
            "kstorm ignores deployment/shop-web, because kstorm's labels are missing"
        )
    assert cluster.patches == []


def test_two_releases_of_one_topology(cluster: KubernetesStub, kstorm: Command) -> None:
    """They would share topics, and the command cannot choose one."""
    cluster.add("split", "bolt", release="second")
    assert "is in several releases of the namespace streams: second, wc" in refused(
        kstorm, "restart", "wordcount"
    )


@pytest.mark.parametrize(
    ("denied", "command", "says"),
    [
        (
            ("patch", "deployments/scale"),
            ["scale", "wordcount", "split=1"],
            (
                "operator may not patch deployments/scale in the namespace streams: a Role must allow the verb patch on "
                "deployments/scale of apps"
            ),
        ),
        (
            ("get", "pods/proxy"),
            ["topology", "status", "wordcount"],
            "operator may not get pods/proxy in the namespace streams: a Role must allow the verb get on pods/proxy",
        ),
        (
            ("list", "statefulsets"),
            ["topology", "list", "-A"],
            "operator may not list statefulsets in all namespaces: a Role must allow the verb list on statefulsets of apps",
        ),
    ],
)
def test_missing_right_is_named(
    cluster: KubernetesStub, kstorm: Command, denied: tuple[str, str], command: list[str], says: str
) -> None:
    cluster.denied = {denied}
    assert refused(kstorm, *command) == says


def test_rejected_login(cluster: KubernetesStub, kstorm: Command) -> None:
    cluster.status = 401
    assert refused(kstorm, "topology", "list").startswith(
        "Kubernetes does not accept this login (Unauthorized): log in again"
    )


def test_unreachable_cluster_is_named(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub = KubernetesStub()
    stub._server.server_close()
    monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
    told = refused(kstorm, "topology", "list")
    assert told.startswith(f"Kubernetes at {stub.url} cannot be reached (")
    assert "Connection refused" in told


@pytest.mark.parametrize("content", [None, "", "no: config", "{"])
def test_no_kubeconfig(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    """An invalid one is refused. A missing one is named, because nothing can run there."""
    path = tmp_path / "config"
    monkeypatch.setenv("KUBECONFIG", str(path))
    if content is None:
        code, told, _ = kstorm("topology", "list")
        assert code == 0
        assert told.startswith("no topology runs from ")
        assert f"the kubeconfig {path} that KUBECONFIG names does not exist" in told
        assert f"kubeconfig {path} that KUBECONFIG names" in refused(kstorm, "restart", "words")
        return
    path.write_text(content)
    told = refused(kstorm, "topology", "list")
    assert told.startswith(f"no cluster: the kubeconfig {path} cannot be used (")
    assert told.endswith("set KUBECONFIG or --context")


def test_unknown_context(cluster: KubernetesStub, kstorm: Command) -> None:
    assert "Expected object with name nowhere" in refused(
        kstorm, "topology", "list", "--context", "nowhere"
    )


def test_without_the_client(
    kstorm: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A spout's image has the command, but not the Kubernetes client."""
    (tmp_path / "config").touch()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    assert refused(kstorm, "topology", "list") == (
        "this needs the module 'kubernetes', which is not installed: pip install 'kstorm[control]'"
    )

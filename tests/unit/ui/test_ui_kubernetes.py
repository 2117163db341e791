"""The web UI on Kubernetes, with the real client and a stub of the API server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kstorm.errors import AbsentError, ControlError
from kstorm.introspection.outline import Outline
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.kubernetes.workloads import Pod
from kstorm_ui.sources import kubernetes
from kstorm_ui.sources.kubernetes import KubernetesSource
from tests.kubernetes_stub import KubernetesStub


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """A cluster with two topologies."""
    with KubernetesStub() as stub:
        stub.add("lines", "spout")
        stub.add("split", "bolt", 2)
        stub.add("acker", "acker")
        stub.add("other", "spout", topology="payments", release="pay")
        stub.pages = {"wc-split-0": {"kind": "bolt", "pid": 1, "begun_at": 1.0}}
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        yield stub


def test_pods_are_queried_through_the_api_server_from_outside(stub: KubernetesStub) -> None:
    """Each topology of the namespace has its components, including the ackers. A pod without a
    response has that as its trouble."""
    found = {
        each.name: each for each in KubernetesSource(open_cluster(None, None), inside=False).look()
    }
    assert sorted(found) == ["payments", "wordcount"]
    words = found["wordcount"]
    assert words.place == "namespace streams"
    assert {(each.component, each.kind, each.processes) for each in words.components} == {
        ("lines", "spout", 1),
        ("split", "bolt", 2),
        ("__acker", "acker", 1),
    }
    processes = {each.name: each for each in words.processes}
    assert processes["wc-split-0"].status == stub.pages["wc-split-0"]
    assert (processes["wc-split-1"].status, processes["wc-split-1"].trouble) == (
        None,
        "does not answer",
    )


def test_components_have_the_revision_of_their_pods(stub: KubernetesStub) -> None:
    for workload in stub.workloads:
        workload["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}
        if workload["kind"] == "StatefulSet":
            workload["metadata"]["annotations"] = {}
            workload["status"]["updateRevision"] = "wc-lines-7f"
    found = KubernetesSource(open_cluster(None, None), inside=False).look()
    words = next(each for each in found if each.name == "wordcount")
    assert [(each.component, each.image, each.revision) for each in words.components] == [
        ("lines", "kstorm-spout:1", "wc-lines-7f"),
        ("split", "kstorm-bolt:1", "3"),
        ("__acker", "kstorm-acker:1", "wc-lines-7f"),
    ]


def test_pods_are_queried_by_address_inside(
    stub: KubernetesStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This needs no right to the proxy. A pod without an address is not queried."""
    asked: list[str] = []

    def ask(url: str, page: str = "status") -> dict[str, Any]:
        if page == "status":
            asked.append(url)
        return {"kind": "bolt"}

    monkeypatch.setattr(kubernetes, "fetch_page", ask)
    stub.denied.add(("get", "pods/proxy"))
    for number, pod in enumerate(stub.pods):
        if number:
            pod["status"]["podIP"] = "fd00::1" if number == 1 else f"10.0.0.{number}"
    processes = [
        each
        for found in KubernetesSource(open_cluster(None, None), inside=True).look()
        for each in found.processes
    ]
    assert {"http://[fd00::1]:6066", "http://10.0.0.2:6066"} <= set(asked)
    assert len(asked) == len(processes) - 1
    assert [each.name for each in processes if each.status is None] == ["wc-lines-0"]


def test_logs_of_the_current_and_the_previous_container(stub: KubernetesStub) -> None:
    """Only of pods that were seen, and of the previous container only after a restart. Failures are
    reported."""
    source = KubernetesSource(open_cluster(None, None), inside=False)
    stub.lines["wc-split-0"] = ["now"]
    (container,) = next(pod for pod in stub.pods if pod["metadata"]["name"] == "wc-split-0")[
        "status"
    ]["containerStatuses"]
    with pytest.raises(AbsentError, match="the pod wc-split-0 of wordcount does not exist"):
        source.log("wordcount", "wc-split-0")
    source.look()
    assert [each.lines for each in source.log("wordcount", "wc-split-0")] == [["now"]]
    container["restartCount"] = 2
    source.look()
    now, before = source.log("wordcount", "wc-split-0")
    assert (now.lines, before.lines) == (["now"], [])
    assert "previous terminated" in before.problem
    stub.past_lines["wc-split-0"] = [str(number) for number in range(1000)]
    _, before = source.log("wordcount", "wc-split-0")
    assert (len(before.lines), before.lines[-1], before.is_cut) == (500, "999", True)
    with pytest.raises(AbsentError):
        source.log("payments", "wc-split-0")
    stub.denied.add(("get", "pods/log"))
    with pytest.raises(ControlError, match="a Role must allow the verb get on pods/log"):
        source.log("wordcount", "wc-split-0")


def test_outline_is_queried_once(stub: KubernetesStub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another pod is queried if that one is gone or restarted, because its code may have changed. A
    pod of an older release has no such page."""
    asked: list[str] = []
    begun = {"wc-split-0": 1.0, "wc-split-1": 1.0}
    source = KubernetesSource(open_cluster(None, None), inside=False)
    pages = {"topology": Outline("wordcount", acker_tasks=3)}

    def page(pod: Pod, name: str) -> dict[str, Any] | None:
        if pod.name not in begun:
            return None
        if name == "topology":
            asked.append(pod.name)
            return msgspec.to_builtins(pages[name]) if name in pages else None
        return {"kind": "bolt", "begun_at": begun[pod.name]}

    monkeypatch.setattr(Cluster, "page", lambda _self, pod, name: page(pod, name))

    def told() -> Outline | None:
        return next(each.outline for each in source.look() if each.name == "wordcount")

    assert told() == told() == Outline("wordcount", acker_tasks=3)
    assert asked == ["wc-split-0"]
    pages["topology"] = Outline("wordcount", acker_tasks=4)
    begun["wc-split-0"] = 2.0
    assert told() == Outline("wordcount", acker_tasks=4)
    del begun["wc-split-0"]
    pages.clear()
    assert told() is None
    assert asked == ["wc-split-0", "wc-split-0", "wc-split-1"]

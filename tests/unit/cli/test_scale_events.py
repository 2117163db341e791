"""`kstorm scale` with a kubeconfig and without Kafka: a pod records the event.

If the pod cannot record it, the command still scales.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.exec_stub import ended
from tests.from_kubeconfig import from_kubeconfig, given
from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub

COMPONENTS = [("sentences", "spout"), ("split", "bolt"), ("count", "bolt"), ("acker", "acker")]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster with a word count, and no Kafka."""
    with from_kubeconfig(tmp_path, monkeypatch, components=COMPONENTS) as stub:
        yield stub


def test_pod_records_the_event(cluster: KubernetesStub, kstorm: Command) -> None:
    """One event has all named components, the outcome and the operator."""
    assert kstorm("scale", "wordcount", "split=4", "count=2") == (
        0,
        "split: 1 → 4\ncount: 1 → 2\n",
        "",
    )
    words = "note --what=split=4 count=2 --outcome=split: 1 → 4, count: 1 → 2 -- wordcount scale"
    assert given(cluster) == [("wc-acker-0", words)]


def test_spout_pod_records_the_event_without_ackers(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    """The pods are looked up after the scaling."""
    assert kstorm("scale", "wordcount", "acker=0")[:2] == (0, "acker: 1 → 0\n")
    assert [pod for pod, _ in given(cluster)] == ["wc-sentences-0"]


def test_refused_scale_is_recorded(cluster: KubernetesStub, kstorm: Command) -> None:
    """The web UI does so too. A misspelt name is not recorded."""
    cluster.autoscale("split")
    assert kstorm("scale", "wordcount", "split=3")[0] == 2
    ((_, words),) = given(cluster)
    assert words.startswith(
        "note --what=split=3 --outcome='split' is scaled by the HorizontalPodAutoscaler hpa-split"
    )
    for wrong in (["wordcount", "spilt=3"], ["wordcuont", "split=3"], ["wordcount"]):
        assert kstorm("scale", *wrong)[0] == 2
    assert len(cluster.commands) == 1


@pytest.mark.parametrize(
    ("denied", "ready", "code", "why"),
    [
        (True, True, 0, "operator may not get pods/exec in the namespace streams"),
        (False, False, 0, "no acker or spout of 'wordcount' has a ready pod"),
        (
            False,
            True,
            2,
            "the pod streams/wc-acker-0 could not record it; its image may be older than this command",
        ),
    ],
)
def test_missing_record_is_reported_and_not_fatal(
    cluster: KubernetesStub, kstorm: Command, denied: bool, ready: bool, code: int, why: str
) -> None:
    """The operator has no permission, no pod is ready, or the pod has an older release."""
    if denied:
        cluster.denied.add(("get", "pods/exec"))
    if not ready:
        for pod in ("wc-acker-0", "wc-sentences-0"):
            cluster.trouble(pod, "CrashLoopBackOff", "back-off")
    cluster.on_exec = lambda pod, command: iter([ended(code)])
    ended_with, told, said = kstorm("scale", "wordcount", "split=4")
    assert (ended_with, told) == (0, "split: 1 → 4\n")
    assert f"kstorm: this action is not recorded in the events of 'wordcount': {why}" in said
    assert [body for name, body in cluster.patches] == [{"spec": {"replicas": 4}}]


def test_named_kafka_is_written_directly(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", "localhost:1")
    code, told, said = kstorm("scale", "wordcount", "split=4")
    assert (code, told) == (0, "split: 1 → 4\n")
    assert (
        "this action is not recorded in the events of 'wordcount': no Kafka broker answered" in said
    )
    assert cluster.commands == []

"""`kstorm causes` on Kubernetes and on this machine.

The real client uses a stub of the API server. On this machine, the command uses the file of a run.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.diamond import build
from kstorm.errors import NoBrokerError
from kstorm.operations.kubernetes.pod_command import PodCommand
from kstorm.operations.status import backlogs, sampling
from kstorm.operations.status.snapshots import Backlog, ProcessSnapshot
from kstorm.runtime import run_files
from kstorm.runtime.base.settings import Settings
from tests.exec_stub import Frames, ended
from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster. Nothing runs on this machine."""
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path))
    with KubernetesStub() as stub:
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        yield stub


def say_lag(stub: KubernetesStub, *lines: str, code: int = 0) -> None:
    """Sets the output of `kstorm lag` in a pod."""

    def run(pod: str, command: list[str]) -> Frames:
        yield 1, "".join(f"{line}\n" for line in lines).encode()
        yield ended(code)

    stub.on_exec = run


def test_unready_pods_show_their_reason(stub: KubernetesStub, kstorm: Command) -> None:
    """The reason is the pod's own report, or the number and start of its crashes."""
    stub.add("sentences", "spout")
    stub.add("split", "bolt", 2)
    stub.pages = {
        "wc-sentences-0": {
            "instance": "wc-sentences-0",
            "not_ready": "\x1b[2JZooKeeper does not answer",
        },
        "wc-split-0": {"instance": "wc-split-0"},
    }
    stub.trouble("wc-split-1", "CrashLoopBackOff", "back-off 5m0s")
    status = stub.pods[-1]["status"]
    status["containerStatuses"][0]["restartCount"] = 7
    status["conditions"] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-25T08:00:00Z"}
    ]
    code, told, _ = kstorm("causes", "wordcount", "--window", "0.1")
    assert code == 0
    first, second, third, fourth = told.splitlines()
    assert first == "no process of sentences is ready (0 of 1)"
    assert second == "    wc-sentences-0: \\u001b[2JZooKeeper does not answer"
    assert third.startswith("split: 1 of 2 processes ready; since 08:00:00 UTC (")
    assert fourth == "    wc-split-1: CrashLoopBackOff: back-off 5m0s; it was restarted 7 times"
    stub.pages = {
        name: {"instance": name} for name in ("wc-sentences-0", "wc-split-0", "wc-split-1")
    }
    assert kstorm("causes", "wordcount", "--window", "0.1")[1].startswith(
        "nothing slows wordcount down"
    )


def test_bolt_scaled_to_0_is_the_first_cause(stub: KubernetesStub, kstorm: Command) -> None:
    """One pod with access to Kafka measures the lag for the two snapshots.

    It gets the ackers' name in the topology.
    """
    stub.add("sentences", "spout")
    stub.add("split", "bolt", 0)
    stub.add("acker", "acker")
    stub.pages = {name: {"instance": name} for name in ("wc-sentences-0", "wc-acker-0")}
    say_lag(
        stub,
        *(
            backlogs.encode({"split": Backlog(at, {0: behind})})
            for at, behind in ((10.0, 500), (20.0, 900))
        ),
    )
    code, told, _ = kstorm("causes", "wordcount", "--window", "0.1")
    assert (code, told.splitlines()) == (
        0,
        ["split is scaled to 0: no process should run", "    lag 900 records and rising by 40/s"],
    )
    ((_, command),) = stub.commands
    assert command[command.index("kstorm") :] == [
        "kstorm",
        "lag",
        "--topology=wordcount",
        "--window=0.1",
        "--",
        "split",
        "__acker",
    ]
    (cause,) = json.loads(kstorm("causes", "wordcount", "--window", "0.1", "--json")[1])
    assert (cause["component"], cause["kind"], cause["weight"]) == ("split", "scaled to 0", 1.0)


@pytest.mark.parametrize(("lines", "code"), [((), 2), (("no such command",) * 2, 0)])
def test_unknown_lag_is_reported_and_not_fatal(
    stub: KubernetesStub, kstorm: Command, lines: tuple[str, ...], code: int
) -> None:
    """The pod's release may lack the command, for example."""
    stub.add("sentences", "spout")
    stub.pages = {"wc-sentences-0": {"instance": "wc-sentences-0"}}
    say_lag(stub, *lines, code=code)
    done, told, complained = kstorm("causes", "wordcount", "--window", "0.1")
    assert (done, told.startswith("nothing slows wordcount down")) == (0, True)
    assert (
        f"the lag of the consumer groups is unknown: the pod streams/wc-sentences-0 did not print it (exit code {code})"
        in complained
    )


def test_bootstrap_option_connects_to_kafka_directly(
    stub: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If no broker responds, that is the cause."""
    stub.add("sentences", "spout")
    stub.pages = {"wc-sentences-0": {"instance": "wc-sentences-0"}}

    def asked(settings: Settings, *_: object) -> None:
        raise NoBrokerError(f"no Kafka broker answered at {settings.bootstrap_servers!r}")

    monkeypatch.setattr(sampling, "backlogs_of", asked)
    code, told, _ = kstorm("causes", "wordcount", "--window", "0.1", "--bootstrap", "h:9092")
    assert (code, told.splitlines()) == (
        0,
        ["Kafka does not answer", "    no Kafka broker answered at 'h:9092'"],
    )
    assert stub.commands == []


def test_local_runs_are_searched_first(
    tmp_path: Path, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option `--runs` names another folder. A process that does not respond is a cause."""
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(sampling, "backlogs_of", lambda *_: {})
    assert "(running there: none), and there is no kubeconfig" in kstorm("causes", "words")[2]
    workers = [
        run_files.RunningWorker(f"{name}-0", name, "http://127.0.0.1:1")
        for name in build("w", "i", "o").components
    ]
    run_files.write(
        tmp_path / "runs" / "1", run_files.describe(build("words", "in", "out"), "", "", workers)
    )
    code, told, _ = kstorm("causes", "words", "--window", "0.1")
    assert (code, "\nno process of " in told, "scaled to 0" in told) == (0, True, True), told
    assert (
        kstorm("causes", "words", "--window", "0.1", "--runs", str(tmp_path / "runs" / "1"))[1]
        == told
    )
    code, _, complained = kstorm("causes", "other", "--runs", str(tmp_path / "runs"))
    assert (code, "(running there: words)" in complained) == (2, True)
    assert (
        "give one or the other"
        in kstorm("causes", "words", "--runs", os.devnull, "--context", "x")[2]
    )


def test_pod_command_uses_a_separate_client(
    stub: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Requests during the start of its session go to the pod too."""
    looking, asking = set[int](), set[int]()
    stub.add("sentences", "spout")
    say_lag(stub, "{}", "{}")
    process = sampling.KubernetesSampler._process

    def noted(self: sampling.KubernetesSampler, *pod: Any) -> ProcessSnapshot:
        looking.add(id(self._cluster))
        return process(self, *pod)

    def noted_too(cluster: Any, *rest: Any) -> Any:
        asking.add(id(cluster))
        return PodCommand(cluster, *rest)

    monkeypatch.setattr(sampling.KubernetesSampler, "_process", noted)
    monkeypatch.setattr(sampling, "PodCommand", noted_too)
    assert kstorm("causes", "wordcount", "--window", "0.1")[0] == 0
    assert (len(looking), len(asking), looking & asking) == (1, 1, set())

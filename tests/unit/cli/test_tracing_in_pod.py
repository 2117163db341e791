"""`kstorm probe`, `export-traces` and `trace --otlp` with only a kubeconfig.

The tests check the pod and its command line, and commands without a suitable pod.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kstorm.operations.traces import otlp
from tests.from_kubeconfig import from_kubeconfig, given
from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub

SPOUT = "wc-sentences-0"
COLLECTOR = "http://collector.monitoring:4318"


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster with a word count."""
    with from_kubeconfig(tmp_path, monkeypatch) as stub:
        yield stub


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["probe"], "probe --topology=wordcount --timeout=60.0 --"),
        (
            ["probe", "--source", "lines", "--trace", "--timeout", "5"],
            "probe --topology=wordcount --source=lines --message={marker} --expect={marker} --trace --timeout=5.0 --",
        ),
        (
            ["probe", "--source", "lines", "--sink", "words", "--message", "a {marker}"],
            "probe --topology=wordcount --source=lines --sink=words --message=a {marker} --expect={marker} --timeout=60.0 --",
        ),
        (
            ["export-traces", "--otlp", COLLECTOR, "--since", "1h", "--slower-than", "2s"],
            f"export-traces --topology=wordcount --otlp={COLLECTOR} --since=1h --slower-than=2s --most=100 --limit-mb=512 --",
        ),
        (
            ["trace", "lines/3/17", "--otlp", COLLECTOR],
            f"trace --since=10m --otlp={COLLECTOR} --limit-mb=2048 --within=60 -- lines/3/17",
        ),
    ],
)
def test_command_runs_in_a_spout_pod(
    cluster: KubernetesStub, kstorm: Command, words: list[str], command: str
) -> None:
    """The options are unchanged. The pod has the topology's code, servers and logins."""
    code, _, complaint = kstorm(*words, "--topology", "wordcount")
    assert (code, given(cluster)) == (0, [(SPOUT, command)]), complaint


@pytest.mark.parametrize("words", [["export-traces"], ["trace", "lines/3/17"]])
def test_only_a_spout_pod_sends(cluster: KubernetesStub, kstorm: Command, words: list[str]) -> None:
    """Only a spout's image has the library, so an acker's pod is not used."""
    cluster.pods = [pod for pod in cluster.pods if pod["metadata"]["name"] != SPOUT]
    code, _, complaint = kstorm(*words, "--topology", "wordcount", "--otlp", COLLECTOR)
    assert (code, cluster.commands) == (2, [])
    assert complaint.startswith("kstorm: no spout of 'wordcount' has a ready pod")
    assert "acker" not in complaint


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--follow"],
            "--follow runs forever: set tracing.otlp.endpoint in the values of its release, which then runs it in",
        ),
        (
            ["--headers-file", "a"],
            "--headers-file is on this machine, but a pod of the topology sends: set tracing.otlp in",
        ),
        (["--slower-than", "2"], "--slower-than 2: give a time such as 500ms, 2s or 1m"),
        (
            ["--otlp", "http://localhost:4318"],
            "--otlp http://localhost:4318: a pod of the topology sends, and this address is the pod itself",
        ),
        (["--bootstrap", "kafka:9092"], "--bootstrap and --zookeeper select servers that can be"),
    ],
)
def test_local_options_are_refused_for_a_pod(
    cluster: KubernetesStub, kstorm: Command, words: list[str], said: str
) -> None:
    everything = ["--otlp", COLLECTOR, "--topology", "wordcount", "--namespace", "streams", *words]
    code, _, complaint = kstorm("export-traces", *everything)
    assert (code, cluster.commands, complaint.count("\n")) == (2, [], 1)
    assert complaint.startswith(f"kstorm: {said}")


def test_local_collector_is_refused_for_a_pod(cluster: KubernetesStub, kstorm: Command) -> None:
    code, _, complaint = kstorm(
        "trace", "lines/3/17", "--topology", "wordcount", "--otlp", "http://127.0.0.1:4318"
    )
    assert (code, cluster.commands) == (2, [])
    assert complaint.startswith("kstorm: --otlp http://127.0.0.1:4318: a pod of the topology sends")


def test_an_image_without_the_library(kstorm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names an image with the library."""
    monkeypatch.setattr(otlp, "MISSING", True)
    monkeypatch.setenv("KSTORM_BOOTSTRAP_SERVERS", "kafka:9092")  # the environment of a pod
    code, _, complaint = kstorm("export-traces", "--otlp", COLLECTOR, "--topology", "wordcount")
    assert (code, complaint.count("\n")) == (2, 1)
    assert (
        "pip install 'kstorm[otel]', or run it in an image FROM the kstorm-spout of this release"
        in complaint
    )

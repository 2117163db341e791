"""Commands from outside a cluster, with a real ZooKeeper that only its pods know.

`tests/unit/cli/test_in_pod.py` tests their way to the pod and back.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from kstorm.cli.__main__ import main
from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.runtime.zookeeper.topology_nodes import (
    Deactivation,
    deactivated_path,
    read_deactivation,
    topology_path,
)
from tests.from_kubeconfig import from_kubeconfig
from tests.kubernetes_stub import KubernetesStub


@pytest.fixture
def cluster(
    zookeeper: EmbeddedZooKeeper, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesStub]:
    """A cluster with a topology. Its pods know the ZooKeeper."""
    variables = {"KSTORM_ZOOKEEPER": zookeeper.connect}
    with from_kubeconfig(tmp_path, monkeypatch, topic_prefix, variables=variables) as stub:
        yield stub


def run(*words: str) -> object:
    """Run a command and return the exit code."""
    with pytest.raises(SystemExit) as ended:
        main(words)
    return ended.value.code


@pytest.mark.slow
def test_deactivation_records_the_local_operator(
    cluster: KubernetesStub,
    client: KazooClient,
    topic_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run("deactivate", topic_prefix) == 0
    told = read_deactivation(client, topic_prefix)
    assert isinstance(told, Deactivation)
    assert told.host == "anna@laptop"
    assert (
        capsys.readouterr().out
        == f"{topic_prefix} is deactivated: no spout process runs, nothing in flight\n"
    )
    assert run("activate", topic_prefix) == 0
    assert client.exists(deactivated_path(topic_prefix)) is None


@pytest.mark.slow
def test_kill_forgets_the_topology_after_its_spouts_have_ended(
    cluster: KubernetesStub, client: KazooClient, topic_prefix: str
) -> None:
    """An acker's pod does it after the end of the spouts."""
    marks = []
    cluster.on_scale = lambda name, _: marks.append(
        (name, client.exists(deactivated_path(topic_prefix)) is not None)
    )
    assert run("kill", topic_prefix, "--yes") == 0
    assert client.exists(topology_path(topic_prefix)) is None
    assert marks == [("wc-sentences", True), ("wc-split", False), ("wc-acker", False)]

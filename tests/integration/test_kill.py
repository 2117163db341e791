"""The checks of `kstorm kill`: it names the cluster and the ZooKeeper and asks. It refuses if one
does not know the topology.

`test_activation.py` tests the kill itself.
"""

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.runtime.zookeeper.topology_nodes import (
    SpoutReport,
    deactivated_path,
    report_path,
    spouts_path,
)
from tests.kstorm_command import run_kstorm
from tests.kubernetes_stub import KubernetesStub


class Terminal(io.StringIO):
    """A terminal with an answer."""

    def isatty(self) -> bool:
        return True


class Both:
    """A cluster and a ZooKeeper with one topology, without a running spout."""

    def __init__(
        self, cluster: KubernetesStub, zookeeper: str, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.cluster, self.zookeeper, self.name, self._capsys = cluster, zookeeper, name, capsys
        self.client = KazooClient(zookeeper)
        self.client.start(30)
        self.client.ensure_path(spouts_path(name))

    def kill(self, *more: str, name: str = "") -> tuple[object, str, str]:
        """Return exit code, output and errors."""
        words = ("kill", name or self.name, "--zookeeper", self.zookeeper, *more)
        return run_kstorm(self._capsys, *words)

    @property
    def untouched(self) -> bool:
        """True if nothing was scaled, deactivated or forgotten."""
        known = self.client.exists(spouts_path(self.name)) is not None
        return (
            known
            and self.client.exists(deactivated_path(self.name)) is None
            and self.cluster.patches == []
        )


@pytest.fixture
def both(
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Both]:
    with KubernetesStub() as stub:
        for component, kind in (("sentences", "spout"), ("split", "bolt"), ("acker", "acker")):
            stub.add(component, kind, topology=topic_prefix)
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "kubeconfig")))
        made = Both(stub, zookeeper.connect, topic_prefix, capsys)
        yield made
        made.client.stop()
        made.client.close()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_kill_prints_the_place_and_asks_on_a_terminal(
    both: Both, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    """It lists context, namespace, ZooKeeper and their spouts. Without a yes nothing happens."""
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    ended, told, _ = both.kill()
    assert ended == code
    assert told.startswith(
        f"{both.name}: sentences, split, acker\n"
        "  Kubernetes: the context stub, namespace streams; spouts: wc-sentences-0\n"
        f"  ZooKeeper: {both.zookeeper}; spouts: none\n"
        f"Kill {both.name} there? [y/N]: "
    )
    assert both.untouched == (code == 1)
    assert [patch for _, patch in both.cluster.patches] == (
        [] if code else 3 * [{"spec": {"replicas": 0}}]
    )


def test_kill_without_a_terminal_requires_yes(both: Both) -> None:
    code, told, error = both.kill()
    assert code == 2
    assert f"  ZooKeeper: {both.zookeeper}; spouts: none\n" in told
    assert error == (
        f"kstorm: there is no terminal to ask whether to kill '{both.name}' there, and nothing was changed: give --yes to confirm\n"
    )
    assert both.untouched


@pytest.mark.slow
def test_wrong_zookeeper_is_refused(both: Both) -> None:
    """It does not know the topology. Scaling to 0 without draining is not what the user wants."""
    both.client.delete(spouts_path(both.name), recursive=True)
    both.client.delete(spouts_path(both.name).rpartition("/")[0])
    code, told, error = both.kill("--yes")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert error.startswith(
        f"kstorm: ZooKeeper at {both.zookeeper} has no topology '{both.name}'; "
    )
    assert (
        "Nothing was changed. Give the ZooKeeper of the topology in the context stub, namespace streams with"
        in error
    )
    assert both.cluster.patches == []


@pytest.mark.slow
def test_other_deployment_of_the_same_name_is_refused(both: Both) -> None:
    """A ZooKeeper for tests knows the topology too, but its spouts are not the cluster's pods."""
    report = SpoutReport("sentences", "test-sentences-0", True, 0, 0, 30.0)
    both.client.create(report_path(both.name, report), msgspec.json.encode(report), ephemeral=True)
    code, told, error = both.kill("--yes")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert (
        f"in ZooKeeper at {both.zookeeper}, with the spouts test-sentences-0, is not the deployment in"
        in error
    )
    assert (
        "the context stub, namespace streams, with the spouts wc-sentences-0. Nothing was changed"
        in error
    )
    assert both.untouched


def test_wrong_cluster_is_refused(both: Both) -> None:
    """Nothing is deactivated."""
    code, told, error = both.kill("--yes", "--namespace", "elsewhere")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert (
        f"there is no topology '{both.name}' in the namespace elsewhere, but there is one in streams"
        in error
    )
    assert both.untouched

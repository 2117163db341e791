"""What `kstorm kill` does before it does anything: it says which cluster and which ZooKeeper it would act on, asks, and refuses
where one of them does not know the topology. What it does then is in `test_activation.py`."""

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from kstorm.cli.__main__ import main
from kstorm.local.servers import EmbeddedZooKeeper
from kstorm.runtime.zookeeper.topologies import (
    SpoutReport,
    deactivated_path,
    report_path,
    spouts_path,
)
from tests.kubernetes_stub import KubernetesStub


class Terminal(io.StringIO):
    """Somebody who answers."""

    def isatty(self) -> bool:
        return True


class Both:
    """A cluster and a ZooKeeper that know one topology, with no spout at work."""

    def __init__(
        self, cluster: KubernetesStub, zookeeper: str, name: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.cluster, self.zookeeper, self.name, self._capsys = cluster, zookeeper, name, capsys
        self.client = KazooClient(zookeeper)
        self.client.start(30)
        self.client.ensure_path(spouts_path(name))

    def kill(self, *more: str, name: str = "") -> tuple[object, str, str]:
        """Exit code, output, errors."""
        with pytest.raises(SystemExit) as ended:
            main(["kill", name or self.name, "--zookeeper", self.zookeeper, *more])
        return ended.value.code, *self._capsys.readouterr()

    @property
    def untouched(self) -> bool:
        """Whether nothing was scaled, and nothing deactivated or forgotten."""
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
    """Give them."""
    with KubernetesStub() as stub:
        for component, kind in (("sentences", "spout"), ("split", "bolt"), ("acker", "acker")):
            stub.add(component, kind, topology=topic_prefix)
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "kubeconfig")))
        made = Both(stub, zookeeper.connect, topic_prefix, capsys)
        yield made
        made.client.stop()
        made.client.close()


@pytest.mark.parametrize(("answer", "code"), [("n\n", 1), ("\n", 1), ("y\n", 0)])
def test_terminal_shows_the_target_and_asks_for_confirmation(
    both: Both, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    """Context, namespace and ZooKeeper, and the spouts that each knows; without a yes nothing is done."""
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


def test_without_a_terminal_yes_is_required(both: Both) -> None:
    code, told, error = both.kill()
    assert code == 2
    assert f"  ZooKeeper: {both.zookeeper}; spouts: none\n" in told
    assert error == (
        f"kstorm: nobody can be asked whether to kill '{both.name}' there, and nothing was changed: give --yes if that is right\n"
    )
    assert both.untouched


def test_the_wrong_zookeeper_is_refused(both: Both) -> None:
    """It has not heard of the topology; to scale it to 0 without draining it is not what was asked for."""
    both.client.delete(spouts_path(both.name), recursive=True)
    both.client.delete(spouts_path(both.name).rpartition("/")[0])
    code, told, error = both.kill("--yes")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert error.startswith(
        f"kstorm: ZooKeeper at {both.zookeeper} has no topology '{both.name}'; "
    )
    assert (
        "Nothing was changed. Give the ZooKeeper of the topology in the context stub, namespace streams by"
        in error
    )
    assert both.cluster.patches == []


def test_another_deployment_of_that_name_is_refused(both: Both) -> None:
    """A ZooKeeper for tests knows the topology too: its spouts are other processes than the cluster's pods."""
    report = SpoutReport("sentences", "test-sentences-0", True, 0, 0, 30.0)
    both.client.create(report_path(both.name, report), msgspec.json.encode(report), ephemeral=True)
    code, told, error = both.kill("--yes")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert (
        f"is another deployment in ZooKeeper at {both.zookeeper}, with the spouts test-sentences-0, than in"
        in error
    )
    assert "the context stub, namespace streams, with wc-sentences-0. Nothing was changed" in error
    assert both.untouched


def test_the_wrong_cluster_is_refused(both: Both) -> None:
    """Nothing is deactivated then."""
    code, told, error = both.kill("--yes", "--namespace", "elsewhere")
    assert (code, told, error.count("\n")) == (2, "", 1)
    assert f"there is no topology '{both.name}' in the namespace elsewhere, but in streams" in error
    assert both.untouched

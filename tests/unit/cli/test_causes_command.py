"""`kstorm causes`, by the real Kubernetes client, on a stub of the API server."""

from pathlib import Path

import pytest

from tests.kubernetes_stub import KubernetesStub
from tests.unit.cli.conftest import Command


def test_the_pods_that_do_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kstorm: Command) -> None:
    """And one that says why it cannot work."""
    with KubernetesStub() as stub:
        stub.add("sentences", "spout")
        stub.add("split", "bolt", 2)
        stub.pages = {
            "wc-sentences-0": {"instance": "wc-sentences-0", "not_ready": "\x1b[2JZooKeeper does not answer"},
            "wc-split-0": {"instance": "wc-split-0"},
        }
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        code, told, _ = kstorm("causes", "wordcount", "--window", "0.1")
        assert code == 0
        assert told.splitlines() == [
            "sentences cannot work",
            "    wc-sentences-0: \\u001b[2JZooKeeper does not answer",
            "split: 1 of 2 processes answer",
        ]
        stub.pages = {name: {"instance": name} for name in ("wc-sentences-0", "wc-split-0", "wc-split-1")}
        assert kstorm("causes", "wordcount", "--window", "0.1")[1].startswith("nothing holds wordcount back")

"""The project that `sparse quickstart` creates runs unchanged, from the package itself.

`STREAMPARSE` names the folder of the package, such as `…/site-packages/streamparse`. Without it, an
installed package is used.
"""

import os
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from kstorm.runtime.base.settings import load_topology
from kstorm.testing import LocalCluster


@pytest.fixture
def quickstart(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the project's folder the current one."""
    folder = os.environ.get("STREAMPARSE")
    if folder is None:
        try:
            folder = str(distribution("streamparse").locate_file("streamparse"))
        except PackageNotFoundError:
            pytest.skip("streamparse is not installed: set STREAMPARSE to the package's folder")
    monkeypatch.chdir(Path(folder) / "bootstrap/project")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return Path.cwd()


def test_quickstart_counts_words(quickstart: Path) -> None:
    topology = load_topology("topologies/wordcount.py:WordCount")
    assert topology.component("count_bolt").num_tasks == 2
    with LocalCluster(topology, seed=1) as cluster:
        while len(cluster.emitted("count_bolt")) < 400:
            assert cluster.step()
        emitted = cluster.emitted("word_spout")
        assert emitted[:5] == [["dog"], ["cat"], ["zebra"], ["elephant"], ["dog"]]
        counts = dict(cluster.emitted("count_bolt"))
        assert counts["dog"] > 10 * 50
        assert counts["dog"] % 10 == 0
        assert counts.keys() == {"dog", "cat", "zebra", "elephant"}
        assert cluster.errors == []

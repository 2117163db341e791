"""Programs that others wrote: pystorm from the package index, and a bolt in Node.

`PYSTORM_PYTHON` names an interpreter that has pystorm and msgpack. Without it, this one is tried.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kstorm.multilang import ShellBolt, ShellSpout
from kstorm.testing import LocalCluster, TupleCaptureBolt
from kstorm.topology import TopologyBuilder

BOLT = """
import sys
from pystorm import BatchingBolt, Bolt

class Split(Bolt):
    def process(self, tup):
        self.logger.info("splits %r", tup.values)
        if tup.values.line == "bad":
            raise ValueError("a bad line")
        for word in tup.values.line.split():
            ids = self.emit([word], need_task_ids=True)
            assert len(ids) == 1, ids

class Sizes(BatchingBolt):
    def process_batch(self, key, tups):
        self.emit([str(len(tups))])

globals()[sys.argv[1]](serializer=sys.argv[2]).run()
"""
SPOUT = """
import sys
from pystorm import ReliableSpout

class Lines(ReliableSpout):
    def initialize(self, conf, context):
        self.lines = [conf["line"], "is a rose"]

    def next_tuple(self):
        if self.lines:
            self.emit([self.lines.pop()], tup_id=str(len(self.lines)))

Lines(serializer=sys.argv[1]).run()
"""


@pytest.fixture(scope="module")
def pystorm() -> str:
    """Return an interpreter that has pystorm."""
    python = os.environ.get("PYSTORM_PYTHON", sys.executable)
    tried = subprocess.run([python, "-c", "import pystorm, msgpack"], cwd="/", capture_output=True)
    if tried.returncode:
        pytest.skip(f"{python} has no pystorm and msgpack: set PYSTORM_PYTHON")
    return python


@pytest.fixture
def node() -> str:
    found = shutil.which("node")
    if found is None:
        spec = importlib.util.find_spec("playwright")
        path = Path(spec.origin or "").parent / "driver/node" if spec else Path("none")
        found = str(path) if path.exists() else None
    if found is None:
        pytest.skip("node is not installed")
    return found


@pytest.fixture(params=["json", "msgpack"])
def serializer(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_bolt_of_pystorm(pystorm: str, tmp_path: Path, bolt_tester: Any, serializer: Any) -> None:
    (tmp_path / "bolts.py").write_text(BOLT)
    command = [pystorm, "bolts.py", "Split", serializer]
    split = bolt_tester(
        ShellBolt(command, ["word"], serializer=serializer, cwd=str(tmp_path)), "line"
    )
    given = [split.give([line]) for line in ("a rose", "bad", "is ä")]
    assert split.emitted() == [["a"], ["rose"], ["is"], ["ä"]]
    assert (split.acked, split.failed) == ([given[0], given[2]], [given[1]])
    errors = " ".join(str(each.error) for each in split.errors)
    assert "a bad line" in errors
    assert "ended with exit code 1" in errors


def test_a_spout_and_batches_of_pystorm(pystorm: str, tmp_path: Path, serializer: Any) -> None:
    (tmp_path / "bolts.py").write_text(BOLT)
    (tmp_path / "spout.py").write_text(SPOUT)
    folder = str(tmp_path)
    builder = TopologyBuilder("t")
    spout = ShellSpout(
        [pystorm, "spout.py", serializer], ["line"], serializer=serializer, cwd=folder
    ).add_component_config("line", "a rose")
    builder.set_spout("lines", spout)
    split = ShellBolt(
        [pystorm, "bolts.py", "Split", serializer], ["word"], serializer=serializer, cwd=folder
    )
    builder.set_bolt("split", split, 2).shuffle_grouping("lines")
    sizes = ShellBolt(
        [pystorm, "bolts.py", "Sizes", serializer], ["size"], serializer=serializer, cwd=folder
    ).add_component_config("topology.tick.tuple.freq.secs", 1)
    builder.set_bolt("sizes", sizes).shuffle_grouping("split")
    builder.set_bolt("end", TupleCaptureBolt()).shuffle_grouping("sizes")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        cluster.advance_time(3)
        assert sorted(cluster.emitted("split")) == [["a"], ["a"], ["is"], ["rose"], ["rose"]]
        assert cluster.emitted("sizes") == [["5"]]
        assert len(cluster.acked("lines")) == 2
        assert cluster.errors == []


def test_a_bolt_in_node(node: str, bolt_tester: Any) -> None:
    script = str(Path(__file__).with_name("split.js"))
    split = bolt_tester(ShellBolt([node, script], ["word"]), "line")
    given = [split.give([line]) for line in ("a rose", "is ä")]
    assert split.emitted() == [["a"], ["rose"], ["is"], ["ä"]]
    assert split.anchors() == [[given[0]]] * 2 + [[given[1]]] * 2
    assert (split.acked, split.errors) == (given, [])

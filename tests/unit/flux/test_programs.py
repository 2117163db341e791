"""`FluxShellSpout` and `FluxShellBolt` of Storm's Flux are kstorm's programs."""

import sys
from pathlib import Path

from kstorm.multilang import ShellBolt, ShellSpout
from kstorm.testing import LocalCluster
from tests.unit.flux.conftest import Written

PROGRAM = Path(__file__).parents[1] / "multilang/program.py"

TEXT = f"""
name: programs
spouts:
  - id: numbers
    class: org.apache.storm.flux.wrappers.spouts.FluxShellSpout
    args:
      - [{sys.executable}, {PROGRAM}, spout]
      - [word]
bolts:
  - id: split
    class: kstorm.multilang:ShellBolt
    parallelism: 2
    args:
      - [{sys.executable}, {PROGRAM}, split]
    config_methods:
      - name: set_default_stream
        args: [[word]]
      - name: set_named_stream
        args: [errors, [word, reason]]
      - name: add_component_config
        args: [my.limit, 3]
  - id: log
    class: org.apache.storm.flux.wrappers.bolts.FluxShellBolt
    args: [[{sys.executable}, {PROGRAM}, fail], [word]]
streams:
  - from: numbers
    to: split
    grouping: {{type: SHUFFLE}}
  - from: split
    to: log
    grouping: {{type: FIELDS, args: [word]}}
"""


def test_programs_run(written: Written) -> None:
    topology = written(TEXT)
    assert isinstance(topology.component("numbers").component, ShellSpout)
    split = topology.component("split")
    assert isinstance(split.component, ShellBolt)
    assert list(split.streams["errors"].fields) == ["word", "reason"]
    assert split.config["my.limit"] == 3
    with LocalCluster(topology) as cluster:
        cluster.run_until_idle()
        assert sorted(cluster.emitted("split")) == [["n0"], ["n1"], ["n2"]]
        assert len(cluster.acked("numbers")) == 3
        assert cluster.errors == []

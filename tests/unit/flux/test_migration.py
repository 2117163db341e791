"""`kstorm migrate flux` translates a file of Storm in place, and names what a person must complete."""

from pathlib import Path
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.flux import load_file
from kstorm.flux.migration import migrate
from kstorm.multilang import ShellBolt
from kstorm.testing import LocalCluster

OF_STORM = """\
# The words of a team.
name: "words"
config:
  topology.workers: 1
  topology.message.timeout.secs: 20
  # ours
  my.own: 3

spouts:
  - id: "words"
    className: "org.apache.storm.testing.TestWordSpout"
    parallelism: 1
    onHeapMemoryLoad: 100   # MB

bolts:
  - id: "count"
    className: org.apache.storm.testing.TestWordCounter
    numTasks: 2
  - {id: program, className: org.apache.storm.flux.wrappers.bolts.FluxShellBolt,
     constructorArgs: [["cat"], ["word"]],
     configMethods: [{name: "setNamedStream", args: [errors, [word]]}]}

streams:
  - name: "words --> count"
    from: "words"
    to: "count"
    grouping: {type: FIELDS, args: ["word"], streamId: default}
  - {from: count, to: program, grouping: {type: SHUFFLE}}
"""


def test_a_translated_file_runs(tmp_path: Path) -> None:
    found = migrate(OF_STORM)
    (tmp_path / "t.yaml").write_text(found.text)
    topology = load_file(tmp_path / "t.yaml")
    assert topology.config.topology_message_timeout_secs == 20
    assert topology.config["my.own"] == 3
    program = topology.component("program")
    assert isinstance(program.component, ShellBolt)
    assert list(program.streams) == ["default", "errors"]
    assert topology.component("count").num_tasks == 2
    with LocalCluster(topology) as cluster:
        cluster.step()


def test_comments_and_layout_stay() -> None:
    found = migrate(OF_STORM)
    before, after = OF_STORM.split("\n"), found.text.split("\n")
    assert len(before) == len(after)
    for line in ("# The words of a team.", "  # ours", "  my.own: 3"):
        assert line in after
    assert '    class: "kstorm.testing:TestWordSpout"' in after
    assert "    # onHeapMemoryLoad: 100   # MB" in found.text
    assert found.remarks == (
        "4: removed topology.workers: kstorm has no such setting",
        "13: removed onHeapMemoryLoad: set the chart's components.ID.resources",
    )
    difference = found.difference(OF_STORM, "words.yaml")
    assert difference.startswith("--- words.yaml\n+++ words.yaml\n")
    assert "-    numTasks: 2\n" in difference
    assert "+    tasks: 2\n" in difference


def test_parts_for_a_person_are_marked() -> None:
    text = """\
name: x
topologySource:
  className: "com.example.Source"
  methodName: "build"
bolts:
  - id: a
    className: "com.example.Bolt"
    properties:
      - name: "maxWaitMs"
        value: 3
"""
    found = migrate(text)
    assert "topology_source:  # TODO: add function: package.module:function" in found.text
    assert '  # className: "com.example.Source"  # removed className' in found.text
    assert 'class: "com.example.Bolt"  # TODO: write com.example.Bolt in Python' in found.text
    assert '- name: "max_wait_ms"' in found.text
    assert [remark.partition(":")[0] for remark in found.remarks] == ["2", "3", "4", "7"]


def test_a_config_without_a_counterpart_becomes_a_comment() -> None:
    found = migrate("name: x\nconfig:\n  topology.workers: 1\n  # ...\nspouts: []\n")
    assert found.text.startswith("name: x\n# config:  # removed config: none of its settings")
    assert "#   topology.workers: 1\n" in found.text.replace("  # topology", "#   topology")


def test_the_spout_of_storms_new_client_is_left_to_a_person() -> None:
    found = migrate("spouts:\n  - className: org.apache.storm.kafka.spout.KafkaSpout\n")
    assert "TODO: write org.apache.storm.kafka.spout.KafkaSpout in Python" in found.text


def test_a_file_of_kstorm_stays() -> None:
    text = "name: x\nspouts:\n  - id: a\n    class: hello:Spout\n"
    found = migrate(text)
    assert (found.text, found.remarks, found.difference(text, "x")) == (text, (), "")


@pytest.mark.parametrize(
    ("text", "problem"), [("a: [", r"f\.yaml:1:5: this is not YAML"), ("- a", "is a mapping")]
)
def test_other_files_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        migrate(text, "f.yaml")


def test_the_command_prints_the_difference(tmp_path: Path, capsys: Any) -> None:
    from kstorm.cli.__main__ import main

    file, output = tmp_path / "storm.yaml", tmp_path / "kstorm.yaml"
    file.write_text(OF_STORM)
    for code in (0, 2):  # the second time, the file exists
        with pytest.raises(SystemExit) as ended:
            main(["migrate", "flux", str(file), "--output", str(output)])
        assert ended.value.code == code
    told = capsys.readouterr()
    assert "+    tasks: 2" in told.out
    assert f"{output}:4: removed topology.workers" in told.err
    assert f"{output} exists" in told.err
    assert output.read_text() == migrate(OF_STORM).text

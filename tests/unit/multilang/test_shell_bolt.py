"""A ShellBolt and its program, one tuple after another: what it may do, and how it fails."""

import json
import logging
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kstorm.errors import ConfigError, TopologyError
from kstorm.multilang import ShellBolt, ShellError, ShellSpout
from kstorm.testing import BoltTester, FeederSpout, LocalCluster, TupleCaptureBolt
from kstorm.topology import EXACTLY_ONCE, Config, TopologyBuilder

PROGRAM = str(Path(__file__).with_name("program.py"))


def command(*mode: str) -> list[str]:
    return [sys.executable, PROGRAM, *mode]


def shell(mode: str, **arguments: Any) -> ShellBolt:
    return ShellBolt(command(mode), arguments.pop("outputs", ["word"]), **arguments)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def wait_for(done: Any, seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_program_emits_with_anchors_and_acks(bolt_tester: Any) -> None:
    split = bolt_tester(shell("split"), "line")
    message = split.give(["a rose is"])
    assert split.emitted() == [["a"], ["rose"], ["is"]]
    assert split.anchors() == [[message]] * 3
    assert (split.acked, split.errors) == ([message], [])


def test_emits_are_answered_with_task_ids_except_direct_ones(bolt_tester: Any) -> None:
    outputs = ShellBolt(command("ids"), ["word"]).set_named_stream("direct", ["word"], direct=True)
    ids = bolt_tester(outputs, "word")
    message = ids.give(["a"])
    assert ids.emitted() == [["a"], ["to 1"]]
    assert ids.emitted("direct") == [["a"]]
    assert ids.acked == [message]


def test_a_program_fails_a_tuple_or_holds_it(bolt_tester: Any) -> None:
    fail = bolt_tester(shell("fail"), "word")
    given = [fail.give([word]) for word in ("bad", "good")]
    assert (fail.failed, fail.acked) == (given[:1], given[1:])
    pairs = bolt_tester(shell("pairs"), "word")
    given = [pairs.give([word]) for word in ("a", "b", "c")]
    assert pairs.anchors() == [given[:2]]
    assert (pairs.acked, pairs.held) == (given[:2], given[2:])


def test_the_handshake_has_settings_context_and_a_folder() -> None:
    shake = ShellBolt(command("handshake"), ["json"]).add_component_config("my.limit", 5)
    shake.add_component_config("topology.message.timeout.secs", 7)
    tester = BoltTester(shake, "word")
    tester.give(["a"])
    found = json.loads(tester.emitted()[0][0])
    assert (found["conf"]["my.limit"], found["conf"]["topology.message.timeout.secs"]) == (5, 7)
    context = found["context"]
    assert (context["componentid"], context["task->component"][str(context["taskid"])]) == (
        "bolt",
        "bolt",
    )
    assert context["source->stream->fields"] == {"source": {"default": ["word"]}}
    (pid,) = (int(path.name) for path in Path(found["pidDir"]).iterdir())
    assert not gone(pid)
    tester.close()
    assert gone(pid)
    assert not Path(found["pidDir"]).exists()


def test_logs_metrics_and_errors_arrive(bolt_tester: Any, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        talk = bolt_tester(shell("talk"), "word")
        talk.give(["a"])
        wait_for(lambda: "to the standard error" in caplog.messages)
    assert ("kstorm.multilang.bolt", logging.WARNING, "to the log") in caplog.record_tuples
    assert talk.bolt.metrics() == {"hits_total_a": 2.0}
    assert "an error of its own" in str(talk.errors[0].error)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("die", "ended with exit code 3; its last lines: so long"),
        ("killed", "was killed by SIGKILL"),
        ("garbage", "wrote b'hello, world.*not JSON.*standard error"),
        ("unknown", "wrote .*'dance'.*not a command of the multilang protocol"),
    ],
)
def test_a_tuple_fails_with_its_program_and_the_next_one_gets_a_new_one(
    bolt_tester: Any, mode: str, reason: str
) -> None:
    tester = bolt_tester(shell(mode), "word")
    given = [tester.give([word]) for word in ("good", "bad", "good")]
    assert (tester.failed, tester.acked) == ([given[1]], [given[0], given[2]])
    (error,) = tester.errors
    assert isinstance(error.error, ShellError)
    with pytest.raises(ShellError, match=f"program.py {mode}.*{reason}.*started again"):
        raise error.error


def test_tuples_of_a_program_fail_with_it(bolt_tester: Any) -> None:
    tester = bolt_tester(
        ShellBolt(["sh", "-c", f"{sys.executable} {PROGRAM} pairs"], ["word"]), "word"
    )
    given = [tester.give(["a"])]
    tester.bolt._shell.hangs("answer")
    tester.settle()
    assert tester.failed == given
    given += [tester.give(["b"]), tester.give(["c"])]
    assert tester.acked == given[1:]


def test_a_program_that_hangs_is_killed_after_the_timeout(bolt_tester: Any) -> None:
    tester = bolt_tester(shell("hang", timeout_secs=2), "word")
    given = [tester.give([word]) for word in ("bad", "good")]
    assert "did not answer a heartbeat within 2 s and was killed" in str(tester.errors[0].error)
    assert "raise timeout_secs" in str(tester.errors[0].error)
    assert (tester.failed, tester.acked) == (given[:1], given[1:])


def test_wrong_ids_and_values_are_reported_and_do_no_harm(bolt_tester: Any) -> None:
    stranger = bolt_tester(shell("stranger"), "word")
    message = stranger.give(["a"])
    errors = [str(each.error) for each in stranger.errors]
    assert "sends 'ack' for 'never'" in errors[0]
    assert "anchors to 'never'" in errors[1]
    assert stranger.acked == [message]
    many = bolt_tester(shell("many fields"), "word")
    message = many.give(["a"])
    assert many.failed == [message]
    assert "3 values" in str(many.errors[0].error)


def test_a_value_that_json_lacks_fails_its_tuple(bolt_tester: Any) -> None:
    tester = bolt_tester(shell("split"), "line")
    message = tester.give([{(1, 2): 3}])
    assert tester.failed == [message]
    assert "cannot be written as json" in str(tester.errors[0].error)


def test_a_flood_arrives(bolt_tester: Any) -> None:
    tester = bolt_tester(shell("flood"), "word")
    message = tester.give(["a"])
    assert len(tester.emitted()) == 20_000
    assert tester.acked == [message]


def test_nothing_is_left_behind_by_cleanup() -> None:
    tester = BoltTester(shell("leave children"), "word")
    tester.give(["a"])
    pids = [int(pid) for pid in tester.emitted()[0][0].split()]
    assert not any(gone(pid) for pid in pids)
    tester.close()
    # A killed process ends when the kernel next runs it.
    wait_for(lambda: all(gone(pid) for pid in pids))


def test_nothing_is_left_behind_by_a_killed_parent() -> None:
    code = (
        "import os, signal\n"
        "from kstorm.multilang import ShellBolt\n"
        "from kstorm.testing import BoltTester\n"
        f"tester = BoltTester(ShellBolt({command('leave children')!r}, ['word']), 'word')\n"
        "tester.give(['a'])\n"
        "print(tester.emitted()[0][0], flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    program, sleeper = map(int, done.stdout.split())
    try:
        wait_for(lambda: gone(program))
    finally:
        # A child of the program is the program's own affair when the kernel kills that.
        os.kill(sleeper, 9)


def test_unknown_commands_and_bad_arguments_are_refused(bolt_tester: Any) -> None:
    with pytest.raises(ConfigError, match=r"'no-such-program' does not exist.*in the image"):
        bolt_tester(ShellBolt(["no-such-program"]), "word")
    for wrong in ("python split.py", [], ["python", ""]):
        with pytest.raises(ConfigError, match="command is"):
            ShellBolt(wrong)
    with pytest.raises(ConfigError, match="serializer is 'xml'"):
        ShellBolt(["python3"], serializer="xml")  # type: ignore[arg-type]


def test_exactly_once_is_refused() -> None:
    builder = TopologyBuilder("t", Config(topology_processing_guarantee=EXACTLY_ONCE))
    builder.set_spout("s", FeederSpout("x"))
    builder.set_bolt("b", shell("split")).shuffle_grouping("s")
    with pytest.raises(TopologyError, match=r"exactly.once"):
        builder.build()
    assert "at_least_once" in shell("split").refuses_exactly_once()


def test_a_topology_of_programs_runs_to_its_end() -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("numbers", ShellSpout(command("spout"), ["word"]))
    builder.set_bolt("fail", shell("split"), 2).shuffle_grouping("numbers")
    builder.set_bolt("end", TupleCaptureBolt()).shuffle_grouping("fail")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        assert sorted(cluster.emitted("fail")) == [["n0"], ["n1"], ["n2"]]
        assert sorted(id for _, id in cluster.acked("numbers")) == [0, 1, 2]
        assert cluster.errors == []


def test_a_spout_emits_again_what_failed(caplog: pytest.LogCaptureFixture) -> None:
    builder = TopologyBuilder("t")
    builder.set_spout("numbers", ShellSpout(command("spout"), ["word"]))
    builder.set_bolt("never", shell("never acks")).shuffle_grouping("numbers")
    with LocalCluster(builder.build()) as cluster:
        cluster.run_until_idle()
        assert len(cluster.emitted("numbers")) == 3
        cluster.advance_time(46)
        assert len(cluster.emitted("numbers")) > 3
        assert cluster.errors == []


def test_ticks_reach_the_program(bolt_tester: Any) -> None:
    bolt = shell("handshake", outputs=["json"])
    bolt.add_component_config("topology.tick.tuple.freq.secs", 1)
    tester = bolt_tester(bolt, "word")
    tester.tick()
    assert len(tester.emitted()) == 1
    assert isinstance(tester, BoltTester)

"""`kstorm dev` while its user changes the code."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import Command, started
from tests.conftest import Eventually

LONG = 900

TOPOLOGY = """\
from kstorm import *

class Count(StatefulBasicBolt):
    def declare_output_fields(self, declarer):
        declarer.declare("key", "message")

    def execute(self, tuple, collector):
        count = self.state.get(tuple["str"], 0) + 1
        self.state.put(tuple["str"], count)
        collector.emit([tuple["str"], count])

text = SchemeAsMultiScheme(StringScheme())
lines = SpoutConfig(KafkaHosts(), "lines", "/kstorm", "hello", scheme=text)
builder = TopologyBuilder("hello", Config(topology_processing_guarantee="exactly_once"))
builder.set_spout("lines", KafkaSpout(lines))
builder.set_bolt("count", Count()).fields_grouping("lines", Fields("str"))
builder.set_bolt("sink", KafkaBolt().with_topic_selector("words")).shuffle_grouping("count")
topology = builder.build()
"""
ARGUMENTS = ("dev", "hello:topology", "--topic", "lines:1", "--topic", "words:1", "--no-page")


class Developer:
    """A user with two terminals and an editor."""

    def __init__(self, folder: Path, command: Command, eventually: Eventually) -> None:
        self._code = folder / "hello.py"
        self._command, self._eventually = command, eventually
        self._seen = 0
        self.sees(r"acked \d")

    def sees(self, pattern: str) -> str:
        """Wait until the command prints a line with the pattern, and return the matched text."""
        rest = ""

        def printed() -> bool:
            nonlocal rest
            rest = self._command.said[self._seen :]
            assert self._command.process.poll() is None or re.search(pattern, rest), rest
            return re.search(pattern, rest) is not None

        self._eventually(printed, 240)
        found = re.search(pattern, rest)
        assert found
        self._seen += found.end()
        return found[0]

    def changes(self, old: str, new: str) -> None:
        self._code.write_text(TOPOLOGY.replace(old, new))

    def sends(self, *lines: str) -> None:
        self._kstorm("produce", "lines", given="".join(f"{line}\n" for line in lines))

    def reads(self, *records: str) -> None:
        """Wait until the topic of words ends with these."""
        end = list(records)
        self._eventually(
            lambda: self._kstorm("consume", "words").splitlines()[-len(end) :] == end, 60
        )

    def leaves(self) -> None:
        self._command.process.send_signal(signal.SIGINT)
        assert self._command.process.wait(120) == 0, self._command.said

    def _kstorm(self, *words: str, given: str = "") -> str:
        kafka = re.findall(r"Kafka is at (\S+),", self._command.said)[-1]
        done = subprocess.run(
            [sys.executable, "-m", "kstorm", *words, "--bootstrap", kafka],
            input=given,
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "hello.py").write_text(TOPOLOGY)
    return tmp_path


@pytest.mark.slow
@pytest.mark.timeout(LONG)
def test_changed_code_runs_with_the_state_of_before(folder: Path, eventually: Eventually) -> None:
    """Errors in the code are shown with their line, and the next change is awaited."""
    with started("kstorm", *ARGUMENTS, home=folder, folder=folder) as command:
        user = Developer(folder, command, eventually)
        user.sends("cow")
        user.reads("cow\t1")
        user.changes("+ 1", "+ 10")
        user.sees("the code has changed")
        user.sees(r"acked \d")
        user.sends("cow")
        user.reads("cow\t1", "cow\t11")
        user.changes("builder.build()", "builder.build(")
        user.sees(r"hello\.py:18: SyntaxError: '\(' was never closed")
        user.sends("cow")
        user.reads("cow\t21")  # the old processes are still running
        user.changes("count = self", "count = 1 // 0 + self")
        user.sees(r"acked \d")
        user.sends("calf")
        user.sees(r"count-0: hello\.py:8 in execute: ZeroDivisionError: ")
        user.changes("", "")
        user.sees(r"acked \d")
        user.sends("cow")
        user.reads("cow\t22")
        user.leaves()
    with started("kstorm", *ARGUMENTS, home=folder, folder=folder) as command:
        user = Developer(folder, command, eventually)
        user.sends("cow")
        user.reads("cow\t22", "cow\t23")
        user.leaves()
    with started("kstorm", *ARGUMENTS, "--fresh", home=folder, folder=folder) as command:
        user = Developer(folder, command, eventually)
        user.sends("cow")
        user.reads("cow\t1")
        user.leaves()

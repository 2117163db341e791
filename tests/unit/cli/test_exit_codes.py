"""Each exit code of the table in docs/guides/control.md, from a real call of the command."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from kstorm.runtime import run_files
from tests.kubernetes_stub import KubernetesStub
from tests.unit.cli.test_state_command import OUTLINE, Bolt, Local

ROOT = Path(__file__).parents[3]
TABLE = re.compile(r"\| exit code \| meaning \|\n\|---\|---\|\n((?:\|.*\n)+)")


class Case(NamedTuple):
    code: int
    words: str
    output: str
    """A part of what the command prints."""
    given: str = "run"
    """`run`: a run on this machine. `lost`: no process of that run has the tasks. `cluster`: a
    topology on Kubernetes. `nothing`: neither."""
    then: str = ""
    """`n`: the answer to its question. `ctrl-c`: sent when it waits."""


CASES = [
    Case(0, "--version", "kstorm ", "nothing"),
    Case(0, "status", "no topology runs from", "nothing"),
    Case(0, "state get wordcount count the", "the"),
    Case(0, "status wordcount --watch --json", "count", then="ctrl-c"),
    Case(0, "state get wordcount count the --follow", "(count:", then="ctrl-c"),
    Case(1, "status --json", "gone-0: does not answer"),
    Case(1, "state get wordcount count cow", "no task of count has the key 'cow'"),
    Case(1, "kill hello", "nothing was changed", "cluster", "n"),
    Case(2, "status hello", "kstorm: "),
    Case(2, "state get wordcount other the", "kstorm: "),
    Case(2, "status --colour", "No such option", "nothing"),
    Case(2, "no-such-command", "there is no command", "nothing"),
    Case(2, "events --topology wordcount --bootstrap 127.0.0.1:1", "kstorm: ", "nothing"),
    Case(2, "kill hello", "give --yes to confirm", "cluster"),
    Case(3, "state get wordcount count the", "no process has the task", "lost"),
    Case(130, "state get wordcount count the", "", "lost", "ctrl-c"),
]
"""`dlq watch` is in tests/integration/test_dead_letters_command.py, because it needs Kafka."""


class Run:
    """A run of one bolt, with one process that does not answer."""

    def __init__(self, home: Path, bolt: Bolt, stubs: Sequence[Local]) -> None:
        self.home, self.bolt, self.stubs = home, bolt, stubs
        workers = [
            run_files.RunningWorker(f"count-{number}", "count", each.url)
            for number, each in enumerate(stubs)
        ]
        gone = run_files.RunningWorker("gone-0", "count", "http://127.0.0.1:1")
        found = run_files.RunningTopology(OUTLINE, os.getpid(), "k:1", "z:1", [*workers, gone])
        run_files.write(home / "runs" / "wordcount", found)
        bolt.put("the", 3)

    def lose_tasks(self) -> None:
        for index in self.bolt.places:
            self.bolt.places[index] = self.bolt.at_work[index] = set()

    @property
    def asked(self) -> bool:
        return any(each.requests for each in self.stubs)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    bolt = Bolt()
    with Local(bolt, "wc-count-0") as one, Local(bolt, "wc-count-1") as other:
        yield Run(tmp_path, bolt, (one, other))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a cluster with a topology."""
    with KubernetesStub() as stub:
        stub.add("count", "bolt", 2, topology="hello")
        stub.add("__acker", "acker", 1, topology="hello")
        yield stub.write_kubeconfig(tmp_path / "config")


def test_the_table_lists_these_codes() -> None:
    """The table has no other code."""
    (table,) = TABLE.findall((ROOT / "docs/guides/control.md").read_text())
    documented = {int(row.split("|")[1]) for row in table.splitlines()}
    assert documented == {case.code for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.code}-{case.words}-{case.then}")
def test_exit_code(case: Case, run: Run, cluster: Path, tmp_path: Path) -> None:
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("K")},
        "HOME": str(tmp_path / "none"),
        "KSTORM_HOME": str(run.home if case.given in ("run", "lost") else tmp_path / "none"),
        "COLUMNS": "200",
        "PYTHONUNBUFFERED": "1",
    }
    if case.given == "cluster":
        environment["KUBECONFIG"] = str(cluster)
    if case.given == "lost":
        run.lose_tasks()
    words = [sys.executable, "-m", "kstorm", *case.words.split()]
    terminal, its_end = os.openpty() if case.then == "n" else (None, subprocess.DEVNULL)
    output = tmp_path / "output"
    with (
        output.open("wb") as out,
        subprocess.Popen(words, stdin=its_end, stdout=out, stderr=out, env=environment) as process,
    ):
        try:
            if terminal is not None:
                os.write(terminal, b"n\n")
            if case.then == "ctrl-c":
                await_condition(lambda: run.asked and case.output in output.read_text(), output)
                process.send_signal(signal.SIGINT)
            code = process.wait(120)
        finally:
            process.kill()
            if terminal is not None:
                os.close(terminal)
                os.close(its_end)
    said = output.read_text()
    assert code == case.code, said
    assert case.output in said


def await_condition(condition: Callable[[], bool], output: Path) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, output.read_text()
        time.sleep(0.05)

"""The benchmark notices when a contestant dies, is silent, or is too slow."""

import io
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from kstorm.errors import LocalError
from kstorm.local.processes import ManagedProcess
from tests.bench.broker import Broker
from tests.bench.progress import Progress
from tests.bench.waiting import Wait


class StandInBroker:
    """Says these numbers of records, one after the other, and the last one again and again."""

    def __init__(self, totals: Iterable[int]) -> None:
        self._totals = list(totals)

    def ends(self, topic: str) -> dict[int, int]:
        """The next number, in the only partition."""
        return {0: self._totals.pop(0) if len(self._totals) > 1 else self._totals[0]}


def wait_for(process: ManagedProcess, *totals: int) -> Wait:
    """A wait for a contestant whose counts grow like this."""
    return Wait(
        process,
        cast(Broker, StandInBroker(totals)),
        "counts",
        Progress(Console(file=io.StringIO())),
    )


@pytest.fixture
def contestant(tmp_path: Path) -> Iterator[ManagedProcess]:
    """A contestant that does nothing, until it is stopped."""
    process = ManagedProcess(
        "faust", [sys.executable, "-c", "import time; time.sleep(60)"], workdir=tmp_path
    )
    process.start()
    yield process
    process.kill()


def test_it_waits_for_the_first_count_and_for_all(contestant: ManagedProcess) -> None:
    """And knows then where the topic ends."""
    wait = wait_for(contestant, 0, 1, 2, 5)
    wait.for_first()
    assert wait.ends == {0: 1}
    assert wait.for_records(5, None)
    assert wait.ends == {0: 5}


def test_who_writes_nobody_knows_how_much_has_done_when_it_is_quiet(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before."""
    monkeypatch.setattr("tests.bench.waiting._QUIET_SECS", 0.6)
    wait = wait_for(contestant, 1, 2, 5)
    wait.for_quiet()
    assert wait.ends == {0: 5}


def test_a_deadline_ends_the_waiting(contestant: ManagedProcess) -> None:
    """With less than what was wanted."""
    assert not wait_for(contestant, 1, 2).for_records(5, time.monotonic())


def test_a_silent_contestant_ends_the_waiting(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has written by then is all."""
    monkeypatch.setattr("tests.bench.waiting._SILENCE_SECS", 0.1)
    assert not wait_for(contestant, 1, 2).for_records(5, None)


def test_one_that_never_writes_is_named_with_its_log(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one line."""
    monkeypatch.setattr("tests.bench.waiting._START_SECS", 0.1)
    with pytest.raises(
        LocalError, match=f"^faust wrote nothing within 0.1 s: see its log {contestant.log_path}$"
    ):
        wait_for(contestant, 0).for_first()


def test_one_that_dies_is_named_with_its_log(contestant: ManagedProcess) -> None:
    """In one line, whatever was waited for."""
    contestant.kill()
    with pytest.raises(
        LocalError,
        match=f"^faust ended by itself with exit code -9: see its log {contestant.log_path}$",
    ):
        wait_for(contestant, 1).for_records(5, None)

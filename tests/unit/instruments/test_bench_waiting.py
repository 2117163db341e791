"""The benchmark notices if a contestant dies, writes nothing, or is too slow."""

import io
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from kstorm.dev.processes import ManagedProcess
from kstorm.errors import LocalError
from tests.bench.broker import Broker
from tests.bench.progress import Progress
from tests.bench.waiting import Wait


class StandInBroker:
    """Reports these numbers of records in turn, and repeats the last one."""

    def __init__(self, totals: Iterable[int]) -> None:
        self._totals = list(totals)

    def ends(self, topic: str) -> dict[int, int]:
        """Return the next number, for the only partition."""
        return {0: self._totals.pop(0) if len(self._totals) > 1 else self._totals[0]}


def wait_for(process: ManagedProcess, *totals: int) -> Wait:
    """Return a wait for a contestant whose counts grow like this."""
    return Wait(
        process,
        cast(Broker, StandInBroker(totals)),
        "counts",
        Progress(Console(file=io.StringIO())),
    )


@pytest.fixture
def contestant(tmp_path: Path) -> Iterator[ManagedProcess]:
    """A contestant that does nothing until it is stopped."""
    process = ManagedProcess(
        "faust", [sys.executable, "-c", "import time; time.sleep(60)"], workdir=tmp_path
    )
    process.start()
    yield process
    process.kill()


def test_unknown_amount_of_output_ends_with_a_pause(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bench.waiting._QUIET_SECS", 0.6)
    wait = wait_for(contestant, 1, 2, 5)
    wait.for_quiet()
    assert wait.ends == {0: 5}


def test_deadline_ends_the_wait(contestant: ManagedProcess) -> None:
    """Fewer records than requested are there."""
    assert not wait_for(contestant, 1, 2).for_records(5, time.monotonic())


def test_silent_contestant_ends_the_wait(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output so far counts as all."""
    monkeypatch.setattr("tests.bench.waiting._SILENCE_SECS", 0.1)
    assert not wait_for(contestant, 1, 2).for_records(5, None)


def test_contestant_without_output_is_named_with_its_log(
    contestant: ManagedProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is one line."""
    monkeypatch.setattr("tests.bench.waiting._START_SECS", 0.1)
    with pytest.raises(
        LocalError, match=f"^faust wrote nothing within 0.1 s: see its log {contestant.log_path}$"
    ):
        wait_for(contestant, 0).for_first()


def test_dead_contestant_is_named_with_its_log(contestant: ManagedProcess) -> None:
    """The error is one line, in every kind of wait."""
    contestant.kill()
    with pytest.raises(
        LocalError,
        match=f"^faust ended by itself with exit code -9: see its log {contestant.log_path}$",
    ):
        wait_for(contestant, 1).for_records(5, None)

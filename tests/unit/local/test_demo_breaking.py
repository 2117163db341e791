"""The demo kills processes in turn while messages are in flight."""

from dataclasses import dataclass, field
from typing import Any, cast

from kstorm.local.cluster import LocalProcesses
from kstorm.local.demo.breaking import Breaker


@dataclass
class StandInProcess:
    pid: int = 10
    starts: int = 1
    alive: bool = True

    def kill(self) -> None:
        self.alive = False

    def come_back(self) -> None:
        self.alive, self.pid, self.starts = True, self.pid + 1, self.starts + 1


@dataclass
class StandInWorker:
    """A worker whose page follows its process."""

    name: str
    tasks: list[int]
    process: StandInProcess = field(default_factory=StandInProcess)
    not_ready: str = ""

    def status(self) -> dict[str, Any] | None:
        if not self.process.alive:
            return None
        return {"pid": self.process.pid, "not_ready": self.not_ready, "tasks": self.tasks}


class StandInProcesses:
    """Two ackers and a counting process."""

    def __init__(self) -> None:
        self.acker = StandInWorker("acker-1", [1, 2])
        self.count = StandInWorker("count-0", [0])
        self._of = {"__acker": [StandInWorker("acker-0", []), self.acker], "count": [self.count]}

    def of(self, component: str) -> list[StandInWorker]:
        return self._of[component]


def breaker(processes: StandInProcesses) -> Breaker:
    """Return a breaker that kills an acker, then a counting process, in a run of 1,000 messages."""
    return Breaker(cast("LocalProcesses", processes), ("__acker", "count"), 1000)


def test_no_process_dies_before_half_of_the_trees_are_complete() -> None:
    processes = StandInProcesses()
    assert breaker(processes).step(499, 0.0) == []
    assert processes.acker.process.alive


def test_second_process_dies_after_the_acker_is_back() -> None:
    """The acker with tasks dies first. The second death waits until the acker is ready again."""
    processes = StandInProcesses()
    breaking = breaker(processes)
    assert breaking.step(500, 1.0) == ["SIGKILL to acker-1, process 10"]
    assert breaking.step(600, 2.0) == []
    processes.acker.not_ready = "recovering"
    processes.acker.process.come_back()
    assert breaking.step(600, 3.0) == []
    assert processes.count.process.alive
    processes.acker.not_ready = ""
    assert breaking.step(600, 4.0) == ["acker-1 is back at work after 3.0 s, as process 11"]
    assert breaking.step(600, 5.0) == []
    assert breaking.step(601, 6.0) == ["SIGKILL to count-0, process 10"]
    assert not breaking.done
    processes.count.process.come_back()
    breaking.step(700, 9.0)
    assert breaking.done
    assert [death.back_after for death in breaking.deaths] == [3.0, 3.0]


def test_messages_are_held_back_for_the_next_death() -> None:
    """A fast topology still has messages in flight at each death.

    After the last one all may be sent.
    """
    processes = StandInProcesses()
    breaking = breaker(processes)
    allowed = [breaking.may_be_produced]
    breaking.step(500, 1.0)
    allowed.append(breaking.may_be_produced)
    processes.acker.process.come_back()
    breaking.step(600, 2.0)
    allowed.append(breaking.may_be_produced)
    breaking.step(800, 3.0)
    assert [*allowed, breaking.may_be_produced] == [600, 734, 867, 1000]


def test_second_process_dies_even_without_open_trees() -> None:
    """With so few messages none can be held back, and the run does not wait."""
    processes = StandInProcesses()
    breaking = Breaker(cast("LocalProcesses", processes), ("__acker", "count"), 1)
    breaking.step(1, 1.0)
    processes.acker.process.come_back()
    breaking.step(1, 2.0)
    assert breaking.step(1, 3.0) == ["SIGKILL to count-0, process 10"]


def test_without_victims_no_message_is_held_back() -> None:
    """This is `--no-break`."""
    calm = Breaker(cast("LocalProcesses", StandInProcesses()), (), 1000)
    assert calm.step(900, 1.0) == []
    assert (calm.may_be_produced, calm.done) == (1000, True)

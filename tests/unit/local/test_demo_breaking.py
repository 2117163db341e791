"""The demo kills processes in turn, each while something is in flight."""

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
    """Kills an acker, then a counting process, in a run of 1,000 messages."""
    return Breaker(cast("LocalProcesses", processes), ("__acker", "count"), 1000)


def test_nothing_dies_before_half_of_the_trees_are_complete() -> None:
    """The first half is undisturbed."""
    processes = StandInProcesses()
    assert breaker(processes).step(499, 0.0) == []
    assert processes.acker.process.alive


def test_first_an_acker_dies_and_the_next_when_it_is_back() -> None:
    """The one with tasks is chosen; the second death waits until the first process is ready again."""
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


def test_messages_are_held_back_for_what_is_to_come() -> None:
    """However fast the topology is, something is left to be in flight at each death; afterwards all may go."""
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


def test_the_second_process_dies_even_if_nothing_is_left_to_complete() -> None:
    """With so few messages that none could be held back, the run does not wait for one."""
    processes = StandInProcesses()
    breaking = Breaker(cast("LocalProcesses", processes), ("__acker", "count"), 1)
    breaking.step(1, 1.0)
    processes.acker.process.come_back()
    breaking.step(1, 2.0)
    assert breaking.step(1, 3.0) == ["SIGKILL to count-0, process 10"]


def test_with_no_victims_nothing_is_held_back() -> None:
    """`--no-break` is a run like any other."""
    calm = Breaker(cast("LocalProcesses", StandInProcesses()), (), 1000)
    assert calm.step(900, 1.0) == []
    assert (calm.may_be_produced, calm.done) == (1000, True)

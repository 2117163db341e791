"""The demo kills processes in turn while trees are open."""

from dataclasses import dataclass, field
from typing import Any, cast

from kstorm.dev.demo.kills import Kills
from kstorm.dev.local_processes import LocalProcesses


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


def kills_of(processes: StandInProcesses) -> Kills:
    """Return kills of an acker, then a counting process, in a run of 1,000 messages."""
    return Kills(cast("LocalProcesses", processes), ("__acker", "count"), 1000)


def test_second_process_is_killed_after_the_acker_is_back() -> None:
    """The acker with tasks is killed first.

    The second kill waits until the acker is ready again.
    """
    processes = StandInProcesses()
    kills = kills_of(processes)
    assert kills.step(500, 100, 1.0) == []
    assert kills.step(500, 100, 1.25) == ["SIGKILL to acker-1, process 10"]
    assert kills.step(600, 100, 2.0) == []
    processes.acker.not_ready = "recovering"
    processes.acker.process.come_back()
    assert kills.step(600, 100, 3.0) == []
    assert processes.count.process.alive
    processes.acker.not_ready = ""
    assert kills.step(600, 100, 4.25) == ["acker-1 is back at work after 3.0 s, as process 11"]
    assert kills.step(600, 100, 5.0) == []
    assert kills.step(601, 100, 6.0) == []
    assert kills.step(610, 100, 6.25) == ["SIGKILL to count-0, process 10"]
    assert not kills.done
    processes.count.process.come_back()
    kills.step(700, 100, 9.25)
    assert kills.done
    assert [kill.back_after for kill in kills.done_so_far] == [3.0, 3.0]


def test_kill_waits_for_open_trees() -> None:
    """With few messages the topology may be idle at that moment. It gets new messages first."""
    processes = StandInProcesses()
    kills = kills_of(processes)
    before = kills.may_be_produced
    assert kills.step(600, 0, 1.0) == []
    assert kills.may_be_produced > before
    assert kills.step(600, 0, 1.2) == []
    assert kills.step(640, 3, 1.4) == []
    assert kills.step(650, 60, 1.6) == ["SIGKILL to acker-1, process 10"]


def test_wait_for_open_trees_is_limited() -> None:
    processes = StandInProcesses()
    kills = kills_of(processes)
    assert kills.step(600, 0, 1.0) == []
    assert kills.step(600, 0, 3.9) == []
    assert kills.step(600, 0, 4.1) == ["SIGKILL to acker-1, process 10"]


def test_messages_are_held_back_for_the_next_kill() -> None:
    """A fast topology still has messages in flight at each kill.

    After the last one all may be sent.
    """
    processes = StandInProcesses()
    kills = kills_of(processes)
    allowed = [kills.may_be_produced]
    kills.step(500, 100, 1.0)
    allowed.append(kills.may_be_produced)
    kills.step(500, 100, 1.2)
    allowed.append(kills.may_be_produced)
    processes.acker.process.come_back()
    kills.step(600, 100, 2.0)
    allowed.append(kills.may_be_produced)
    kills.step(800, 100, 3.0)
    assert [*allowed, kills.may_be_produced] == [600, 734, 734, 867, 1000]


def test_second_process_is_killed_even_without_open_trees() -> None:
    """With so few messages none can be held back, and the run does not wait."""
    processes = StandInProcesses()
    kills = Kills(cast("LocalProcesses", processes), ("__acker", "count"), 1)
    kills.step(1, 0, 1.0)
    kills.step(1, 0, 1.2)
    processes.acker.process.come_back()
    kills.step(1, 0, 2.0)
    kills.step(1, 0, 3.0)
    assert kills.step(1, 0, 3.2) == ["SIGKILL to count-0, process 10"]


def test_without_victims_no_message_is_held_back() -> None:
    """This is `--no-break`."""
    calm = Kills(cast("LocalProcesses", StandInProcesses()), (), 1000)
    assert calm.step(900, 100, 1.0) == []
    assert (calm.may_be_produced, calm.done) == (1000, True)

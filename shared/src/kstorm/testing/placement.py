"""Which process of a simulated cluster runs which task, and how crashes, pauses and rebalances change that."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from kstorm.testing.disks import Disk
from kstorm.testing.executors import AckerProcess, BoltProcess, SpoutProcess
from kstorm.testing.process import Process
from kstorm.testing.world import World
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

DiskFate = Literal["kept", "lost", "old"]
"""What a process that starts anew finds on its disk: what it had there, nothing, or what an earlier life had."""

_LONGEST_SLEEP = 400  # steps of others
_CHECKPOINT_WAS_DUE = 0.5
"""Probability that a zombie's first thought is the checkpoint that came due in its sleep."""


class Placement:
    """The processes of a cluster. Task i of a component with n processes belongs to the process i mod n."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._executors: dict[str, list[Process]] = {}
        self._holders: dict[tuple[str, int], Process] = {}
        self._zombies: list[Process] = []
        self._removed: list[Process] = []  # those that have still tasks to hand over
        self._old_disks: dict[tuple[str, int], Disk] = {}
        for component, executors in _components(world.topology):
            self._executors[component] = [self._new(component, Disk()) for _ in range(executors)]
            for task in range(_tasks(world.topology, component)):
                self._give(component, task)

    def __iter__(self) -> Iterator[Process]:
        """Every process that is one of the cluster's: no zombies."""
        for executors in self._executors.values():
            yield from executors
        yield from self._removed

    def of(self, component: str) -> list[Process]:
        """The processes of a component."""
        return self._executors[component]

    def holder(self, component: str, task: int) -> Process:
        """The process that runs a task."""
        return self._holders[component, task]

    def crash(self, component: str, number: int, disk: DiskFate = "kept") -> None:
        """Kills a process; another starts in its place, on what is left of its disk."""
        old = self._executors[component][number]
        old.die()
        found = {"kept": old.disk, "lost": Disk(), "old": self._old_disks.get((component, number), old.disk)}[disk]
        self._old_disks[component, number] = old.disk.copy()
        self._replace(component, number, found)

    def pause(self, component: str, number: int) -> None:
        """Makes a zombie of a process: another has its tasks, and it does not know it when it wakes up."""
        old = self._executors[component][number]
        self._replace(component, number, Disk())
        old.zombie = True
        if self._world.random.random() < _CHECKPOINT_WAS_DUE:
            old.begin_checkpoint()
        self._world.scheduler.put_to_sleep(old, int(_LONGEST_SLEEP ** self._world.random.random()))
        self._zombies.append(old)

    def tell_zombies(self) -> None:
        """Time has passed: zombies that are awake have a checkpoint to take, with which they will be refused."""
        for zombie in self._zombies:
            if not zombie.asleep:
                zombie.begin_checkpoint()

    def bury(self) -> None:
        """Ends the zombies there are."""
        for zombie in self._zombies:
            zombie.die()
        self._zombies.clear()

    def scale(self, component: str, executors: int) -> None:
        """Changes how many processes a component has. Tasks are handed over in good order, as steps of the schedule."""
        have = self._executors[component]
        removed = have[executors:]
        del have[executors:]
        have.extend(self._new(component, Disk()) for _ in range(executors - len(have)))
        for task in range(_tasks(self._world.topology, component)):
            holder = self._holders[component, task]
            if holder is not have[task % executors] and not holder.leaves(task):
                holder.leave(task, partial(self._released, component, task, holder))
        self._removed += removed
        self._end_removed()

    def _new(self, component: str, disk: Disk) -> Process:
        return _role(self._world.topology, component)(self._world, component, disk)

    def _replace(self, component: str, number: int, disk: Disk) -> None:
        old = self._executors[component][number]
        self._executors[component][number] = self._new(component, disk)
        for (name, task), holder in list(self._holders.items()):
            if name == component and holder is old:
                self._give(component, task)

    def _released(self, component: str, task: int, by: Process) -> None:
        if self._holders[component, task] is by:  # else it was taken for dead meanwhile
            self._give(component, task)
        self._end_removed()

    def _end_removed(self) -> None:
        for process in self._removed:
            if not process.has_tasks:
                process.die()
        self._removed = [process for process in self._removed if not process.dead]

    def _give(self, component: str, task: int) -> None:
        executors = self._executors[component]
        holder = self._holders[component, task] = executors[task % len(executors)]
        holder.start(task)


def _components(topology: Topology) -> Iterable[tuple[str, int]]:
    yield from ((spec.id, spec.parallelism) for spec in topology.components.values())
    yield ACKER_COMPONENT, topology.config.topology_acker_executors


def _tasks(topology: Topology, component: str) -> int:
    if component == ACKER_COMPONENT:
        return topology.config.acker_tasks
    return topology.component(component).num_tasks


def _role(topology: Topology, component: str) -> Callable[[World, str, Disk], Process]:
    if component == ACKER_COMPONENT:
        return AckerProcess
    return SpoutProcess if topology.component(component).kind == "spout" else BoltProcess

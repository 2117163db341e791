"""Assigns the tasks of a simulated cluster to processes, through crashes, pauses and rebalances."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from kstorm.testing.disks import Disk
from kstorm.testing.process import SimulatedProcess
from kstorm.testing.processes import count_tasks, make_process
from kstorm.testing.world import SimulatedWorld
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

DiskFate = Literal["kept", "lost", "old", "strange"]
"""Disk contents of a restarted process: as before, empty, from an earlier run, or of another
topology with the same component names."""

Heir = Literal["stranger", "namesake", "others"]
"""Successor of a process taken for dead: a process under a new name, one under the same name, or
the others of its component.

The first two run on new hosts. Without other processes, "others" is a stranger.
"""

_LONGEST_SLEEP = 400  # steps of other processes
_CHECKPOINT_WAS_DUE = 0.5
"""Probability that a zombie starts with a checkpoint that became due in its sleep."""


class Placement:
    """The processes of a cluster. Task i of a component with n processes belongs to process i mod
    n."""

    def __init__(self, world: SimulatedWorld) -> None:
        self._world = world
        self._executors: dict[str, list[SimulatedProcess[Any]]] = {}
        self._holders: dict[tuple[str, int], SimulatedProcess[Any]] = {}
        self._zombies: list[SimulatedProcess[Any]] = []
        self._removed: list[SimulatedProcess[Any]] = []  # they still have tasks to hand over
        # by host, for later processes on that host
        self._disks: dict[tuple[str, int], Disk] = {}
        self._old_disks: dict[tuple[str, int], Disk] = {}
        self._strangers = 0
        for component, executors in _components(world.topology):
            self._executors[component] = [
                self._new(component, number) for number in range(executors)
            ]
            for task in range(count_tasks(world.topology, component)):
                self._give(component, task)

    def __iter__(self) -> Iterator[SimulatedProcess[Any]]:
        """Yield every member process, without zombies."""
        for executors in self._executors.values():
            yield from executors
        yield from self._removed

    def of(self, component: str) -> list[SimulatedProcess[Any]]:
        return self._executors[component]

    def holder(self, component: str, task: int) -> SimulatedProcess[Any]:
        """Return the process that runs a task."""
        return self._holders[component, task]

    def crash(self, component: str, number: int, disk: DiskFate = "kept") -> None:
        """Kill a process and start another under its name, with the remaining disk."""
        host = component, number
        old = self._executors[component][number]
        old.die()
        fates: dict[DiskFate, Callable[[], Disk]] = {
            "kept": lambda: old.disk,
            "lost": Disk,
            "old": lambda: self._old_disks.get(host, old.disk),
            "strange": lambda: old.disk.strange(),
        }
        found = fates[disk]()
        self._old_disks[host] = old.disk.duplicate()
        self._disks[host] = found
        self._replace(component, number, self._make(component, found, old.name))

    def remake_changelog(self, component: str) -> None:
        """Recreate a component's changelog while all of its processes are down. Disks and offsets
        stay."""
        for process in self._living(component):
            if process.component == component:
                process.die()
        self._world.logs.remake_changelog(self._executors[component][0].engine.changelog)
        for process in [process for process in self._removed if process.component == component]:
            self.restart(process)
        for number in range(len(self._executors[component])):
            self.crash(component, number)

    def vanish(self, component: str, number: int) -> bool:
        """Kill a process that does not return within its session, so that the others get its tasks.

        Its disk stays, for a process that starts under its name. Returns False if there are no
        other processes.
        """
        if len(self._executors[component]) == 1:
            return False
        old = self._executors[component][number]
        old.die()
        self._put_out(old)
        return True

    def restart(self, process: SimulatedProcess[Any]) -> None:
        """Restart a process that exited, unless it was scaled away."""
        executors = self._executors[process.component]
        if process in executors:
            self.crash(process.component, executors.index(process))
        else:
            process.die()
            process.member.leave()
            self._give_all_of(process)
            self._end_removed()

    def pause(
        self, component: str, number: int, heir: Heir = "stranger", sleeps: bool = True
    ) -> None:
        """Turn a process into a zombie: its heir gets its tasks, and it does not know that when it
        wakes up.

        If it does not `sleep`, only its poll loop has stalled, and everything else in it continues.
        """
        old = self._executors[component][number]
        if heir == "others" and len(self._executors[component]) > 1:
            self._put_out(old)
        elif heir == "namesake":
            self._replace(component, number, self._make(component, Disk(), old.name))
        else:
            self._replace(
                component,
                number,
                self._make(component, Disk(), self._strange(f"{component}-{number}")),
            )
        old.zombie = True
        if self._world.random.random() < _CHECKPOINT_WAS_DUE:
            old.begin_checkpoint()
        if sleeps:
            self._world.scheduler.put_to_sleep(
                old, int(_LONGEST_SLEEP ** self._world.random.random())
            )
        old.polling = sleeps
        self._zombies.append(old)

    def tell_zombies(self) -> None:
        """Let awake zombies take a due checkpoint, which is refused, or learn from the group that
        their tasks moved.

        Called when time has passed.
        """
        for zombie in self._zombies:
            if not zombie.asleep:
                zombie.tick() if self._world.random.random() < _CHECKPOINT_WAS_DUE else zombie.lose()

    def bury(self) -> None:
        """End all current zombies."""
        for zombie in self._zombies:
            zombie.die()
        self._zombies.clear()

    def scale(self, component: str, executors: int) -> None:
        """Change the number of processes. Tasks are handed over step by step while all others keep
        working."""
        have = self._executors[component]
        self._removed += have[executors:]
        del have[executors:]
        have.extend(self._new(component, number) for number in range(len(have), executors))
        for task in range(count_tasks(self._world.topology, component)):
            holder = self._holders[component, task]
            if holder is not have[task % executors] and not holder.leaves(task):
                holder.leave(task)
        self._end_removed()

    def _new(self, component: str, number: int) -> SimulatedProcess[Any]:
        """Start a process on the host of this number, or on a new host if another process still
        hands over tasks there."""
        name, disk = f"{component}-{number}", self._disks.setdefault((component, number), Disk())
        if any(process.name == name or process.disk is disk for process in self._living(component)):
            return self._make(component, Disk(), self._strange(name))
        return self._make(component, disk, name)

    def _living(self, component: str) -> Iterator[SimulatedProcess[Any]]:
        yield from self._executors.get(component, [])
        yield from self._removed
        yield from (zombie for zombie in self._zombies if not zombie.dead)

    def _strange(self, name: str) -> str:
        self._strangers += 1
        return f"{name} again {self._strangers}"

    def _make(self, component: str, disk: Disk, name: str) -> SimulatedProcess[Any]:
        process = make_process(self._world, component, disk, name)
        process.on_released, process.on_ended = self._released, self.restart
        return process

    def _replace(self, component: str, number: int, new: SimulatedProcess[Any]) -> None:
        old = self._executors[component][number]
        self._executors[component][number] = new
        old.member.leave()  # does nothing if the new one has its name
        self._give_all_of(old)

    def _put_out(self, process: SimulatedProcess[Any]) -> None:
        """Remove a process from the group. The others of its component get its tasks."""
        self._executors[process.component].remove(process)
        process.member.leave()
        self._give_all_of(process)

    def _give_all_of(self, process: SimulatedProcess[Any]) -> None:
        for (component, task), holder in list(self._holders.items()):
            if holder is process:
                self._give(component, task)

    def _released(self, process: SimulatedProcess[Any], task: int) -> None:
        # Otherwise it was taken for dead meanwhile.
        if self._holders[process.component, task] is process:
            self._give(process.component, task)
        self._end_removed()

    def _end_removed(self) -> None:
        for process in self._removed:
            if not process.tasks:
                process.die()
                process.member.leave()
        self._removed = [process for process in self._removed if not process.dead]

    def _give(self, component: str, task: int) -> None:
        executors = self._executors[component]
        holder = self._holders[component, task] = executors[task % len(executors)]
        holder.start(task)


def _components(topology: Topology) -> Iterable[tuple[str, int]]:
    yield from ((spec.id, spec.parallelism) for spec in topology.components.values())
    yield ACKER_COMPONENT, topology.config.topology_acker_executors

"""Which process of a simulated cluster runs which task, and how crashes, pauses and rebalances change that."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from kstorm.testing.disks import Disk
from kstorm.testing.process import Process
from kstorm.testing.processes import count_tasks, make_process
from kstorm.testing.world import World
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

DiskFate = Literal["kept", "lost", "old", "strange"]
"""What a process that starts anew finds on its disk: what it had there, nothing, what an earlier life had, or what another
topology with components of the same names left there."""

Heir = Literal["stranger", "namesake", "others"]
"""Who has the tasks of a process that is taken for dead: a new one under a new name, or under its name, both on new hosts; or
the others of its component, if there are any."""

_LONGEST_SLEEP = 400  # steps of others
_CHECKPOINT_WAS_DUE = 0.5
"""Probability that a zombie's first thought is the checkpoint that came due in its sleep."""


class Placement:
    """The processes of a cluster. Task i of a component with n processes belongs to the process i mod n."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._executors: dict[str, list[Process[Any]]] = {}
        self._holders: dict[tuple[str, int], Process[Any]] = {}
        self._zombies: list[Process[Any]] = []
        self._removed: list[Process[Any]] = []  # those that have still tasks to hand over
        self._disks: dict[
            tuple[str, int], Disk
        ] = {}  # by host: a process that is made on it later finds it
        self._old_disks: dict[tuple[str, int], Disk] = {}
        self._strangers = 0
        for component, executors in _components(world.topology):
            self._executors[component] = [
                self._new(component, number) for number in range(executors)
            ]
            for task in range(count_tasks(world.topology, component)):
                self._give(component, task)

    def __iter__(self) -> Iterator[Process[Any]]:
        """Every process that is one of the cluster's: no zombies."""
        for executors in self._executors.values():
            yield from executors
        yield from self._removed

    def of(self, component: str) -> list[Process[Any]]:
        """The processes of a component."""
        return self._executors[component]

    def holder(self, component: str, task: int) -> Process[Any]:
        """The process that runs a task."""
        return self._holders[component, task]

    def crash(self, component: str, number: int, disk: DiskFate = "kept") -> None:
        """Kills a process; another starts in its place, under its name, on what is left of its disk."""
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
        """While no process of a component is there its changelog is deleted and made again; disks and offsets stay."""
        for process in self._living(component):
            if process.component == component:
                process.die()
        self._world.logs.remake_changelog(self._executors[component][0].engine.changelog)
        for process in [process for process in self._removed if process.component == component]:
            self.restart(process)
        for number in range(len(self._executors[component])):
            self.crash(component, number)

    def vanish(self, component: str, number: int) -> bool:
        """Kills a process that does not come back while its session lasts: the others get its tasks. Its disk stays, for who
        comes under its name. False if there are no others."""
        if len(self._executors[component]) == 1:
            return False
        old = self._executors[component][number]
        old.die()
        self._put_out(old)
        return True

    def restart(self, process: Process[Any]) -> None:
        """A process ended by itself: it is started anew, unless it has no place any more."""
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
        """Makes a zombie of a process: its heir has its tasks, and it does not know it when it wakes up. If it does not sleep,
        its poll loop alone stood still for too long, and it goes on with all else."""
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
        """Time has passed: zombies that are awake take the checkpoint that is due, with which they are refused, or hear from
        the group what has become of their tasks."""
        for zombie in self._zombies:
            if not zombie.asleep:
                zombie.tick() if self._world.random.random() < _CHECKPOINT_WAS_DUE else zombie.lose()

    def bury(self) -> None:
        """Ends the zombies there are."""
        for zombie in self._zombies:
            zombie.die()
        self._zombies.clear()

    def scale(self, component: str, executors: int) -> None:
        """Changes how many processes a component has. Tasks are handed over step by step, while all others work on."""
        have = self._executors[component]
        self._removed += have[executors:]
        del have[executors:]
        have.extend(self._new(component, number) for number in range(len(have), executors))
        for task in range(count_tasks(self._world.topology, component)):
            holder = self._holders[component, task]
            if holder is not have[task % executors] and not holder.leaves(task):
                holder.leave(task)
        self._end_removed()

    def _new(self, component: str, number: int) -> Process[Any]:
        """A process on a host of this number; on a new host if another process has still tasks to hand over there."""
        name, disk = f"{component}-{number}", self._disks.setdefault((component, number), Disk())
        if any(process.name == name or process.disk is disk for process in self._living(component)):
            return self._make(component, Disk(), self._strange(name))
        return self._make(component, disk, name)

    def _living(self, component: str) -> Iterator[Process[Any]]:
        yield from self._executors.get(component, [])
        yield from self._removed
        yield from (zombie for zombie in self._zombies if not zombie.dead)

    def _strange(self, name: str) -> str:
        self._strangers += 1
        return f"{name} again {self._strangers}"

    def _make(self, component: str, disk: Disk, name: str) -> Process[Any]:
        process = make_process(self._world, component, disk, name)
        process.on_released, process.on_ended = self._released, self.restart
        return process

    def _replace(self, component: str, number: int, new: Process[Any]) -> None:
        old = self._executors[component][number]
        self._executors[component][number] = new
        old.member.leave()  # which does nothing if the new one has its name
        self._give_all_of(old)

    def _put_out(self, process: Process[Any]) -> None:
        """A process is a member no more, and the others of its component get its tasks."""
        self._executors[process.component].remove(process)
        process.member.leave()
        self._give_all_of(process)

    def _give_all_of(self, process: Process[Any]) -> None:
        for (component, task), holder in list(self._holders.items()):
            if holder is process:
                self._give(component, task)

    def _released(self, process: Process[Any], task: int) -> None:
        if (
            self._holders[process.component, task] is process
        ):  # else it was taken for dead meanwhile
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

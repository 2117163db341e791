"""One process of a simulated cluster: it drives an engine on in-memory logs, with random
scheduling.

A process offers the scheduler the steps that it could take now. A step is anything that a real
process does without yielding. It carries out one effect, receives one record or one transaction
response, or runs a piece of user code. Between two steps another process may run, or this one may
die. A dead process loses its memory, and undelivered sends never arrive.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from kstorm.core.engine import Effect, InputRecord, TaskTenure
from kstorm.core.engine.effects import (
    AbandonOpen,
    ApplyToStore,
    Close,
    CommitOffsets,
    FetchRecords,
    Open,
    Release,
    RunUserCode,
    Send,
    StartDelivery,
    Terminate,
    Transact,
)
from kstorm.core.engine.transaction import Transactions
from kstorm.testing.consumer_group import UNKNOWN, GroupMember
from kstorm.testing.disks import Disk, DiskRows
from kstorm.testing.in_flight_records import InFlightRecords
from kstorm.testing.logs import TopicPartition
from kstorm.testing.scheduler import Step
from kstorm.testing.simulated_user_code import E, UserCodeActor
from kstorm.testing.transactions import RefusedError, SimulatedTransaction
from kstorm.testing.world import SimulatedWorld

MOST_RECORDS = 3
"""Per task and poll."""
_TICKS_AT_ONCE = 0.5
_ALERT = 0.3
"""Probability that a received poll is processed although other steps are possible."""


class SimulatedProcess(UserCodeActor[E]):
    """Behaviour shared by all kinds of processes."""

    def __init__(self, world: SimulatedWorld, component: str, disk: Disk, name: str) -> None:
        """`name`: the instance's name. A process restarted under the same name has the same
        transactional id."""
        super().__init__(world)
        self.component, self.disk, self.name = component, disk, name
        self.member = GroupMember(world.groups[component], name, self.wake)
        self.zombie = False
        """True if another process has its tasks and it does not know that yet. For observers, not
        for the broker."""
        self.polling = True
        """False while its poll loop is stalled. Everything else continues then."""
        self.background: list[Callable[[], list[Step]]] = []
        """Returns further steps, for work done outside the tasks, as on threads of its own."""
        self.on_released: Callable[[SimulatedProcess[Any], int], None] = lambda process, task: None
        """Called after it has released a task."""
        self.on_ended: Callable[[SimulatedProcess[Any]], None] = lambda process: process.die()
        """Called when it exits by itself while it is a member."""
        self._effects: deque[Effect] = deque()
        self._channel: deque[list[tuple[TaskTenure[Any], list[InputRecord]]]] = deque()
        """Unprocessed polls."""
        self.tasks: set[int] = set()
        """Tasks assigned by the group and not yet released."""
        self._assigned: list[int] = []  # tasks whose offsets are not known yet
        self._opening: dict[int, int] = {}  # by task, its changelog's end when opening began
        self._position: dict[int, int] = {}  # by task that is being read
        self._input: dict[int, list[bytes]] = {}  # by the same tasks, the logs of their partitions
        self._sends = InFlightRecords(world)
        self.transactions = Transactions()
        self.transacting: SimulatedTransaction | None = None
        """The current transaction."""
        self.epoch = world.logs.begin_epoch(name)

    # Calls from the cluster.

    def ready(self) -> list[Step]:
        # A simulation spends most of its time here, so it looks only at what there is.
        steps: list[Step] = []
        if self._assigned:
            steps += [
                partial(self._assign, task) for task in self._assigned if self._is_stable(task)
            ]
        if self._effects:
            steps.append(self._carry_out_next)
        if self.member.outdated:
            steps.append(self.member.catch_up)
        for entry in self._runs:
            steps.append(partial(self._go_on, entry))
        if self._opening:
            steps += [
                partial(self._open, task)
                for task, high in self._opening.items()
                if self._has_ended(task, high)
            ]
        if (
            self._position
            and self.polling
            and not self.engine.intake.full
            and (polled := self._readable())
        ):
            steps += [partial(self._poll, polled)] * len(polled)
        if self._sends and self._sends.can_arrive:
            steps += [self._deliver_one] * 2
        if self.transacting is not None and self.transacting.can_go_on():
            steps.append(self.go_on_with_transaction)
        for more in self.background:
            steps += more()
        # If its intake is limited, polls also arrive while user code is running, and wait in the
        # engine. Otherwise they wait in the channel, where more can happen to them.
        if (
            self._channel
            and (not self.engine.busy or self.world.intake is not None)
            and (not steps or self.world.random.random() < _ALERT)
        ):
            steps.append(self._handle)
        return steps

    def start(self, task: int) -> None:
        """Assign a task."""
        self.member.catch_up()
        self.tasks.add(task)
        self._assigned.append(task)
        self.wake()

    def leave(self, task: int) -> None:
        """Revoke a task."""
        self.member.catch_up()
        if task in self._assigned:
            self._assigned.remove(task)
            self._release(task)
        else:
            self._then(self.engine.revoked([task], self.world.now))

    def leaves(self, task: int) -> bool:
        """Return True if it is about to release a task."""
        return task in self.engine.tenures and self.engine.tenures[task].leaving

    def lose(self) -> None:
        """Handle the loss of all tasks to another process. Rejoin the group unless the process
        ends."""
        self._then(self.engine.lost(list(self.engine.tenures), self.world.now))
        self.polling = True
        ends = any(isinstance(effect, Terminate) for effect in self._effects)
        if not ends and self.member.refusal == UNKNOWN:
            self.member.join()

    def tick(self) -> None:
        """Let time pass. In calm worlds ticks and timeouts fire immediately, unless user code is
        running."""
        at_once = not self.engine.busy and (
            self.world.at_once or self.world.random.random() < _TICKS_AT_ONCE
        )
        for effect in self.engine.tick(self.world.now):
            if at_once and isinstance(effect, RunUserCode):
                self._run_through(effect)
            else:
                self._effects.append(effect)
        self.wake()

    def begin_checkpoint(self) -> None:
        """Start a checkpoint before one is due. It proceeds step by step."""

    def close(self) -> None:
        """Close its components, and do nothing else."""

    def _end(self, task: Any, method: Callable[[], Any], doing: str) -> None:
        """Call a final method of the user's code. Its error is kept for the test until everything
        is closed, unless the world expects crashes."""
        try:
            self.world.wait(method())
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            if self.world.on_crash is None:
                self.world.closing_errors.append(error)
            else:
                self.engine.journal.error(error, doing, task.task_id)

    def die(self) -> None:
        """Take no further step."""
        self.dead = True
        self.tally()
        for _, steps, waiting in self._runs:
            if waiting is not None:
                waiting.abandon()
            steps.close()
        self._runs.clear()
        for task in self._position:
            self.world.logs.unwatch(self._place(task), self)

    def tally(self) -> None:
        """Add the tasks' counts of rare events to the world's."""

    @property
    def quiet(self) -> bool:
        """True if nothing is being done or sent."""
        return not (
            self._effects
            or self._runs
            or self._channel
            or self._sends
            or self.transacting
            or self._opening
            or self._assigned
        )

    @property
    def sends(self) -> bool:
        """True if it has sends that are not delivered."""
        return bool(self._sends)

    @property
    def waits_for_checkpoint(self) -> bool:
        """True if some output can leave only with a checkpoint."""
        return False

    def places(self) -> list[TopicPartition]:
        """Return the partitions that it reads."""
        return [self._place(task) for task in self._position]

    # Events.

    def _then(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ApplyToStore):
                self._keep(effect)  # the task reads its state from the disk from now on
            else:
                self._effects.append(effect)
        self.wake()

    def _keep(self, effect: ApplyToStore) -> None:
        for task, changes in effect.changes.items():
            self.disk.keep(self._changelog(task), changes, effect.reached[task], self.world.now)

    def _assign(self, task: int) -> None:
        self._assigned.remove(task)
        offset = self.world.logs.committed(self._place(task))
        self._then(self.engine.assigned({task: offset}, self.world.now))

    def _is_stable(self, task: int) -> bool:
        return self.world.logs.is_stable(self._place(task))

    def _readable(self) -> list[int]:
        """Return the tasks with unread records."""
        logs, tenures, topic = self.world.logs, self.engine.tenures, self.engine.topic
        stalled, stable_end, input_of = logs.stalled, logs.stable_end, self._input
        return [
            task
            for task, position in self._position.items()
            if position < len(input_of[task])
            and (place := (topic, task)) not in stalled
            and position < stable_end(place)
            and task in tenures
            and self._reads(tenures[task])
        ]

    def _reads(self, tenure: TaskTenure[Any]) -> bool:
        """Return True if a task's records are still read."""
        return tenure.works

    def _poll(self, tasks: list[int]) -> None:
        """Receive records of some tasks."""
        chance = self.world.random
        chosen = [chance.choice(tasks)] if len(tasks) == 1 or chance.random() < 0.5 else tasks
        item = []
        for task in chosen:
            position, place, logs = self._position[task], self._place(task), self.world.logs
            end = min(logs.stable_end(place), position + chance.randint(1, MOST_RECORDS))
            records = [
                InputRecord(*record) for record in logs.committed_records(place, position, end)
            ]
            if records:
                item.append((self.engine.tenures[task], records))
            self._position[task] = end
        if item:
            self._channel.append(item)

    def _handle(self) -> None:
        if not self.world.dawdles():
            self._then(self.engine.arrived(self._channel.popleft(), self.world.now))

    def _deliver_one(self) -> None:
        self._sends.deliver_one()
        self._then(self.engine.confirmed(self.world.now))

    # Effects.

    def _carry_out_next(self) -> None:
        match effect := self._effects.popleft():
            case Send():
                self._sends.add(effect)
            case RunUserCode():
                self._runs.append((effect, effect.steps, None))
            case Open():
                self._begin_opening(effect.task)
            case AbandonOpen():
                if effect.task in self._opening:
                    self._opened(effect.task)
            case StartDelivery():
                self._read(effect.task)
            case Transact():
                self.transacting = SimulatedTransaction(self, effect)
            case FetchRecords():
                self._fetch(effect)
            case CommitOffsets():
                self._commit(effect)
            case Close():
                self._stop_reading(effect.task)
            case Release():
                self._release(effect.task)
            case Terminate():
                self.world.count("zombie ended")
                self.die()

    def _commit(self, effect: CommitOffsets) -> None:
        if effect.waits:
            self.member.catch_up()  # a rebalance waits for this commit
        if refusal := self.world.refusal(self.member, self.member.generation):
            self.world.count(f"commit refused: {refusal}")
        else:
            self.world.logs.commit((self._place(task), at) for task, at in effect.offsets.items())
        if effect.waits:
            self._then(self.engine.committed(effect, {}, self.world.now))

    def _fetch(self, effect: FetchRecords) -> None:
        place, read = self._place(effect.task), self.world.logs.committed_records
        found = [record for at in effect.offsets for record in read(place, at, at + 1)]
        self._then(
            self.engine.fetched(effect, [InputRecord(*one) for one in found], self.world.now)
        )

    def _begin_opening(self, task: int) -> None:
        """Note the changelog's end. Recovery waits until no transaction below it is open."""
        if self.engine.changelog:
            self._opening[task] = len(self.world.logs.changelog(self._changelog(task)))
        else:
            self._opened(task)

    def _has_ended(self, task: int, high: int) -> bool:
        return not any(
            written.is_open for written in self.world.logs.changelog(self._changelog(task))[:high]
        )

    def _open(self, task: int) -> None:
        world = self.world
        self.disk.recover(
            world.logs, self._changelog(task), self._opening[task], world.now, world.tombstone_secs
        )
        self._opened(task)

    def _opened(self, task: int) -> None:
        self._opening.pop(task, None)
        self._then(self.engine.opened(task, (), self.world.now))

    def _read(self, task: int) -> None:
        place = self._place(task)
        self._position[task] = self.engine.tenures[task].progress.finished
        self._input[task] = self.world.logs.records(place)
        self.world.logs.watch(place, self, self.wake)

    def _release(self, task: int) -> None:
        self.tasks.remove(task)
        self.on_released(self, task)

    def _stop_reading(self, task: int) -> None:
        if self._position.pop(task, None) is not None:
            self.world.logs.unwatch(self._place(task), self)

    def go_on_with_transaction(self) -> None:
        """Take the next step of the transaction."""
        transacting = self.transacting
        assert transacting is not None
        try:
            ended = transacting.go_on()
        except RefusedError as error:
            self.world.count("zombie refused" if self.zombie else error.what)
            self.die() if self.zombie else self.on_ended(self)
            return
        if ended or transacting.refused:
            self.transacting = None
        effect, now = transacting.effect, self.world.now
        if ended:
            self._then(self.engine.committed(effect, transacting.reached, now))
        elif transacting.refused:
            self._then(self.engine.refused(effect, transacting.refused, now))

    def _place(self, task: int) -> TopicPartition:
        return self.engine.topic, task

    def _rows(self) -> DiskRows:
        return DiskRows(self.disk, self.engine.changelog)

    def _changelog(self, task: int) -> TopicPartition:
        return self.engine.changelog, task

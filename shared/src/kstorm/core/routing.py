"""Routing: maps a stream and a tuple's values to the lanes of the tasks that receive it.

`routes` turns the groupings of a stream's consumers into choosers, once per task. A choice takes a
few dozen nanoseconds per tuple. A fields grouping must choose the same task in every process and
every run. So it hashes the MessagePack form with CRC-32 and does not use Python's salted `hash`.
"""

import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import cycle
from typing import Any, assert_never

from kstorm.core.batch_routing import Spreader, by_choice, by_fields, in_turn, to_everyone
from kstorm.core.key_hash import stable_hash
from kstorm.core.lanes import Lane
from kstorm.core.outbox import Outbox
from kstorm.core.sendable import Sendable
from kstorm.errors import EmitError
from kstorm.topology import ComponentSpec, Fields, Topology, TopologyContext
from kstorm.topology.groupings import (
    AllGrouping,
    ChoosingGrouping,
    CustomGrouping,
    DirectGrouping,
    FieldsGrouping,
    GlobalGrouping,
    NoneGrouping,
    PartialKeyGrouping,
    ShuffleGrouping,
)

Chooser = Callable[[Sequence[Any]], Sequence[Lane]]
"""Maps a tuple's values to the lanes of the tasks that receive the tuple."""

PlainRoute = tuple[int, int, int, dict[Any, Sequence[Lane]], Chooser]
"""A route as `Emitter.put` uses it: the number of fields, `Sendable.short`, the position of the key
(or -1), the lanes of known keys, and the choice for a tuple that can be sent."""

_CACHED_KEYS = 65_536


class StreamRoutes:
    """Routes of one stream of one task."""

    __slots__ = (
        "choose",
        "choosers",
        "direct",
        "fields",
        "is_direct",
        "lanes",
        "sendable",
        "spreaders",
    )

    def __init__(self, fields: Fields, is_direct: bool, sendable: Sendable) -> None:
        self.fields = len(fields)
        self.is_direct = is_direct
        self.sendable = sendable
        self.lanes: list[Lane] = []
        self.choosers: list[Chooser] = []
        """One chooser per consumer."""
        self.choose: Chooser = _nowhere
        """Combines all choosers. Any grouping may raise, so a tuple is put into lanes only after
        all have chosen. Raises `UnsendableError` for a tuple that no record can hold."""
        self.spreaders: list[Spreader] = []
        """The same choosers for batches, one per consumer."""
        self.direct: dict[int, tuple[Lane, ...]] = {}
        """Task id → lane, for `emit(task=…)` on a direct stream."""

    def plain(self) -> PlainRoute:
        choose = _together(self.choosers)
        short = self.sendable.short if self.choosers else sys.maxsize
        if isinstance(choose, _ByField):
            return self.fields, short, choose.position, choose.known, choose
        return self.fields, short, -1, {}, choose


def routes(
    topology: Topology, component: str, task_index: int, outbox: Outbox
) -> dict[str, StreamRoutes]:
    """Return the routes of every stream that the task may emit on, by stream id."""
    context = TopologyContext(topology, component, task_index)
    table: dict[str, StreamRoutes] = {}
    for stream in topology.component(component).streams.values():
        most = topology.config.topology_frame_max_bytes
        sendable = Sendable(component, stream.id, stream.fields, most)
        route = table[stream.id] = StreamRoutes(stream.fields, stream.direct, sendable)
        for consumer, grouping in topology.consumers(component, stream.id):
            lanes = _lanes(topology, consumer, context.task_id, component, stream.id, outbox)
            route.lanes += lanes
            if isinstance(grouping, DirectGrouping):
                route.direct |= {lane.targets[0]: (lane,) for lane in lanes}
            else:
                choose, spread = _choices(grouping, lanes, stream.fields, context, stream.id)
                route.choosers.append(choose)
                route.spreaders.append(spread)
        if route.choosers:
            route.choose = sendable.guarding(_together(route.choosers))
    return table


def _lanes(
    topology: Topology,
    consumer: ComponentSpec,
    task: int,
    component: str,
    stream: str,
    outbox: Outbox,
) -> list[Lane]:
    topic = topology.bolt_topic(consumer.id)
    targets = topology.task_ids(consumer.id)
    return [
        outbox.lane(component, task, stream, topic, index, target)
        for index, target in enumerate(targets)
    ]


def _choices(
    grouping: ChoosingGrouping,
    lanes: list[Lane],
    fields: Fields,
    context: TopologyContext,
    stream: str,
) -> tuple[Chooser, Spreader]:
    """Return a grouping's choice for one tuple, and the same choice for the rows of a batch."""
    singles = [(lane,) for lane in lanes]
    match grouping:
        case FieldsGrouping(names):
            positions = [fields.index(name) for name in names]
            return _by_fields(positions, singles), by_fields(positions, lanes, stable_hash)
        case PartialKeyGrouping(names):
            choose = _by_partial_key([fields.index(name) for name in names], singles)
            return choose, by_choice(choose)
        case AllGrouping():
            everyone = tuple(lanes)
            return lambda _values: everyone, to_everyone(lanes)
        case GlobalGrouping():
            return lambda _values: singles[0], to_everyone(lanes[:1])
        case CustomGrouping(custom):
            choose = _by_user(custom, lanes, context, stream)
            return choose, by_choice(choose)
        case ShuffleGrouping() | NoneGrouping():
            return _in_turn(singles, context.task_index), in_turn(lanes, context.task_index)
        case _:
            assert_never(grouping)


def _nowhere(_values: Sequence[Any]) -> Sequence[Lane]:
    return ()


def _together(choosers: list[Chooser]) -> Chooser:
    """Combine choosers. Most streams have one consumer, and its chooser is returned as it is."""
    if len(choosers) == 1:
        return choosers[0]
    return (
        (lambda values: [lane for choose in choosers for lane in choose(values)])
        if choosers
        else _nowhere
    )


def _in_turn(singles: list[tuple[Lane]], start: int) -> Chooser:
    """Shuffle: choose each task in turn. Tasks of one component start at different ones."""
    turn = cycle(singles[start % len(singles) :] + singles[: start % len(singles)]).__next__
    return lambda _values: turn()


def _by_fields(positions: list[int], singles: list[tuple[Lane]]) -> Chooser:
    if len(positions) == 1:
        return _ByField(positions[0], singles)
    count = len(singles)
    return lambda values: singles[stable_hash([values[p] for p in positions]) % count]


class _ByField:
    """Chooses by one field, and remembers the lanes of its keys."""

    __slots__ = ("_singles", "known", "position")

    def __init__(self, position: int, singles: list[tuple[Lane]]) -> None:
        self.position, self._singles = position, singles
        self.known: dict[Any, Sequence[Lane]] = {}
        """Contains only strings: no value of another type equals one, so a hit is always right."""

    def __call__(self, values: Sequence[Any]) -> Sequence[Lane]:
        key, known = values[self.position], self.known
        try:
            return known[key]
        except (KeyError, TypeError):
            pass
        lane = self._singles[stable_hash((key,)) % len(self._singles)]
        if type(key) is str:
            if len(known) >= _CACHED_KEYS:
                known.clear()
            known[key] = lane
        return lane


def _by_partial_key(positions: list[int], singles: list[tuple[Lane]]) -> Chooser:
    """Power of two choices: hash the key to two tasks, and choose the one that this task has sent
    fewer tuples to."""
    if len(singles) == 1:
        return lambda _values: singles[0]
    count = len(singles)
    sent = [0] * count
    cache: dict[Any, tuple[int, int]] = {}
    position = positions[0] if len(positions) == 1 else None

    def choose(values: Sequence[Any]) -> Sequence[Lane]:
        if position is None:
            first, second = _two_tasks(stable_hash([values[p] for p in positions]), count)
        else:
            key = values[position]
            try:
                first, second = cache[key]
            except (KeyError, TypeError):
                first, second = candidates = _two_tasks(stable_hash((key,)), count)
                if type(key) is str:  # as in `_ByField`
                    if len(cache) >= _CACHED_KEYS:
                        cache.clear()
                    cache[key] = candidates
        task = first if sent[first] <= sent[second] else second
        sent[task] += 1
        return singles[task]

    return choose


_64_BITS = 2**64 - 1


def _two_tasks(number: int, count: int) -> tuple[int, int]:
    """Return two different tasks out of `count` (at least 2) for the hash of a key. All pairs are
    equally likely.

    CRC-32 is linear: for keys of one length, the hashes of two encodings of a key would differ by a
    constant. So its 32 bits are mixed into 64 by the finalizer of SplitMix64, whose halves are
    independent.
    """
    number = number * 0x9E3779B97F4A7C15 & _64_BITS
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 & _64_BITS
    number = (number ^ number >> 27) * 0x94D049BB133111EB & _64_BITS
    number ^= number >> 31
    first, second = (number >> 32) % count, (number & 0xFFFFFFFF) % (count - 1)
    return first, second + (second >= first)


def _by_user(template: Any, lanes: list[Lane], context: TopologyContext, stream: str) -> Chooser:
    custom = deepcopy(template)  # each task prepares its own copy, as with components
    by_task = {lane.targets[0]: lane for lane in lanes}
    custom.prepare(context, context.component, stream, list(by_task))

    def choose(values: Sequence[Any]) -> Sequence[Lane]:
        try:
            chosen = custom.choose_tasks(context.task_id, values)
        except Exception as error:
            raise EmitError(
                f"{type(custom).__name__}.choose_tasks raised {type(error).__name__} for a tuple "
                f"of {context.component!r} on the stream {stream!r}: {error}"
            ) from error
        try:
            return [by_task[task] for task in chosen]
        except (KeyError, TypeError):
            raise EmitError(
                f"{type(custom).__name__}.choose_tasks returned {chosen!r}: return a list of task "
                f"ids from {list(by_task)}"
            ) from None

    return choose

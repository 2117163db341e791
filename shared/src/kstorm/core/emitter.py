"""The one implementation of emits, for spouts and bolts and for both guarantees.

An emit is checked first, and the groupings choose its receivers. So an error has no effect. Then
the tuple is put into their lanes. With exactly-once processing, this second half waits until the
execution has succeeded.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from kstorm.core.emission import Emission
from kstorm.core.ids import NextId, NextIds
from kstorm.core.lanes import Lane
from kstorm.core.outbox import Outbox
from kstorm.core.routing import PlainRoute, StreamRoutes
from kstorm.core.sendable import ROWS, check_values, encode_into, scratch
from kstorm.core.threads import get_ident
from kstorm.errors import EmitError
from kstorm.topology import DEFAULT_STREAM, Anchors, Tuple

Observer = Callable[[str, Iterable[Sequence[Any]]], None]
"""Receives every emit: the stream and the values of each tuple."""


_NOT_PLAIN: Final[PlainRoute] = -1, 0, -1, {}, lambda values: ()


class Emitter:
    """The emits of one task."""

    def __init__(
        self,
        component: str,
        table: dict[str, StreamRoutes],
        outbox: Outbox,
        next_id: NextId,
        next_ids: NextIds,
    ) -> None:
        self._component, self._routes, self._outbox = component, table, outbox
        self._next_id, self._next_ids = next_id, next_ids
        self._plain = {
            stream: route.plain() for stream, route in table.items() if not route.is_direct
        }
        self._trace = outbox.trace
        self.observe: Observer | None = None
        self.emitted = 0
        self.owner = get_ident()
        """The thread that runs the task. It is set each time that the task gets work."""
        self.closed = False
        """True if the task has left this process."""

    def close(self) -> None:
        """Record that the task has left this process. Later calls of its component have no effect.

        Otherwise this process could send a late ack in addition to the ack of the task's next
        owner.
        """
        self.owner = -1  # no thread has this number, so every call is handed over
        self.closed = True

    def check(self, values: Sequence[Any], stream: str, task: int | None) -> None:
        """Raise `EmitError` if the emit is invalid, without calling the groupings."""
        if type(values) not in ROWS:
            check_values(repr(self._component), values)
        route = self._routes.get(stream)
        if route is None or len(values) != route.fields or route.is_direct or task is not None:
            direct_lanes(route, self._component, values, stream, task)

    def choose(self, values: Sequence[Any], stream: str, task: int | None) -> Sequence[Lane]:
        """Return the lanes of the tuple's receivers. Raises `EmitError` if the emit is invalid."""
        if type(values) not in ROWS:
            check_values(repr(self._component), values)
        route = self._routes.get(stream)
        if route is None or len(values) != route.fields or route.is_direct or task is not None:
            return direct_lanes(route, self._component, values, stream, task)
        return route.choose(values)

    def put(
        self,
        values: Sequence[Any],
        anchors: Anchors = None,
        stream: str = DEFAULT_STREAM,
        task: int | None = None,
        position: int = -1,
        lanes: Sequence[Lane] | None = None,
    ) -> Sequence[int]:
        """Put a tuple into the lanes of its receivers. Returns the ids of the receiving tasks.

        With a `position`, the tuple is anchored to the one at that position of a basic bolt's
        frame. If `lanes` is given, the lanes were already chosen and the anchors checked. The list
        of values is copied, because the component may change it afterwards.
        """
        if get_ident() != self.owner:
            return self.from_elsewhere(values, anchors, stream, task)
        checked = lanes is not None
        if lanes is None:
            if type(values) is not list and type(values) is not tuple:  # faster than with ROWS
                check_values(repr(self._component), values)
            # The same as `choose`, without further calls, because most tuples are emitted here.
            plain, fits = self._plain, False
            fields, short, key, known, choose = plain[stream] if stream in plain else _NOT_PLAIN  # noqa: SIM401 - faster
            if len(values) == fields and task is None:
                try:
                    encode_into(values, scratch)
                    fits = len(scratch) <= short
                    if key >= 0 and fits:
                        lanes = known[values[key]]
                except Exception:  # noqa: BLE001, S110 - a new key, or values that `choose` refuses
                    pass
            if lanes is None:
                lanes = choose(values) if fits else self.choose(values, stream, task)
        if type(values) is not tuple:
            values = tuple(values)
        self.emitted += 1
        if self.observe is not None:
            self.observe(stream, (values,))
        targets: Sequence[int] = ()
        if position >= 0:
            for lane in lanes:
                lane.frame_rows.append(values)
                lane.frame_at.append(position)
                targets = (*targets, *lane.targets) if targets else lane.targets
            return targets
        if type(anchors) is Tuple and not anchors.more and not anchors.finished:
            # The usual case: one anchor, of one tree.
            root, trace = anchors.root, self._trace
            edge = 0
            for lane in lanes:
                if root:
                    edge = self._next_id()
                    anchors.ack_val ^= edge
                    if trace is not None and trace.picks(root):
                        lane.parents[len(lane.rows)] = [anchors.edge]
                lane.rows.append(values)
                lane.roots.append(root)
                lane.edges.append(edge)
                targets = (*targets, *lane.targets) if targets else lane.targets
            return targets
        if lanes and anchors is not None and not checked:
            self.check_anchors(anchors)
        for lane in lanes:
            root, edge = (0, 0) if anchors is None else self._fold(lane, anchors)
            lane.rows.append(values)
            lane.roots.append(root)
            lane.edges.append(edge)
            targets = (*targets, *lane.targets) if targets else lane.targets
        return targets

    def from_elsewhere(
        self, values: Sequence[Any], anchors: Anchors, stream: str, task: int | None
    ) -> Sequence[int]:
        """Handle an emit by a thread that does not run the task."""
        raise NotImplementedError

    def check_anchors(self, anchors: Tuple | Iterable[Tuple]) -> None:
        """Raise `EmitError` if an anchor is finished.

        This check precedes the drawing of edges. Otherwise the valid anchors would wait for a tuple
        that is never sent.
        """
        for anchor in (anchors,) if isinstance(anchors, Tuple) else anchors:
            if not isinstance(anchor, Tuple):
                raise EmitError(
                    f"{self._component!r} anchors to {anchor!r:.100}, which is of type "
                    f"{type(anchor).__name__}: pass the tuples that it received"
                )
            if anchor.finished:
                raise EmitError(
                    f"{self._component!r} anchors to a tuple of {anchor.source_component!r} that "
                    "was acked or failed already: emit first, then ack"
                )

    def _fold(self, lane: Lane, anchors: Tuple | Sequence[Tuple]) -> tuple[int, int]:
        """Draw an edge for each anchor of the lane's next tuple.

        Returns its first root and edge. The lane gets the others. Edges of one root are folded.
        """
        several = (anchors,) if isinstance(anchors, Tuple) else anchors
        pairs: dict[int, int] = {}
        for anchor in several:
            if anchor.root:
                edge = self._next_id()
                anchor.ack_val ^= edge
                for root in anchor.roots():
                    pairs[root] = pairs.get(root, 0) ^ edge
        first, edge = pairs.popitem() if pairs else (0, 0)
        if self._trace is not None and (
            self._trace.picks(first) or any(map(self._trace.picks, pairs))
        ):
            lane.parents[len(lane.rows)] = [
                parent
                for anchor in several
                if anchor.root
                for parent in (anchor.edge, *(anchor.more or {}).values())
            ]
        if pairs:
            lane.more[len(lane.rows)] = pairs
        return first, edge

    def put_batch(
        self, emission: Emission, stream: str, columns: Sequence[Sequence[Any]], count: int
    ) -> None:
        """Put a batch into its lanes."""
        self.emitted += count
        if self.observe is not None:
            self.observe(stream, zip(*columns, strict=True))
        emission.send()


def direct_lanes(
    route: StreamRoutes | None, component: str, values: Sequence[Any], stream: str, task: int | None
) -> Sequence[Lane]:
    """Return the lanes of an emit that names its task. Raises `EmitError` on any invalid emit."""
    if route is None:
        raise EmitError(
            f"{component!r} emits on the stream {stream!r}, which it did not declare in "
            "declare_output_fields"
        )
    if len(values) != route.fields:
        raise EmitError(
            f"{component!r} emits {len(values)} values on the stream {stream!r}, which declares "
            f"{route.fields} fields"
        )
    if not route.is_direct:
        raise EmitError(
            f"{component!r} emits to a task on the stream {stream!r}, which is not a direct "
            "stream: declare it with direct=True"
        )
    if task is None:
        raise EmitError(
            f"{component!r} emits on the direct stream {stream!r} without a task: pass task=…"
        )
    lanes = route.direct.get(task)
    if lanes is None:
        raise EmitError(
            f"{component!r} emits to task {task} on the stream {stream!r}: its consumers' tasks "
            f"are {sorted(route.direct)}"
        )
    route.sendable.check(values)
    return lanes


def check_columns(
    route: StreamRoutes | None, component: str, columns: Sequence[list[Any]], stream: str
) -> tuple[StreamRoutes, int]:
    """Return the route and the number of rows of a batch.

    Raises `EmitError` if the batch is invalid, and `UnsendableError` if it has a tuple that no
    record can hold.
    """
    if route is None or route.is_direct or len(columns) != route.fields:
        direct_lanes(route, component, columns, stream, None)
        raise AssertionError("unreachable: a direct emit without a task is refused")
    for column in columns:
        if type(column) is not list:
            check_values(f"{component!r}, as a column of the stream {stream!r},", column)
    sizes = {len(column) for column in columns}
    if len(sizes) != 1:
        raise EmitError(
            f"{component!r} emits a batch on the stream {stream!r} whose columns have "
            f"{sorted(sizes)} rows: give one list per field, all of the same length"
        )
    if route.spreaders:
        route.sendable.check_columns(columns)
    return route, sizes.pop()

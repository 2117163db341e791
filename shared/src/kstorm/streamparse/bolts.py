"""streamparse's bolts: one tuple at a time, or in batches between ticks."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from kstorm.fitting import Text, checked
from kstorm.streamparse.component import Component, Tuple
from kstorm.streamparse.specs import ComponentSpec, Inputs, spec_of_class


class Bolt(Component):
    """Processes one tuple at a time."""

    auto_anchor: ClassVar[bool] = True
    """Emits are anchored to the tuples being processed, unless `emit` gets `anchors`."""
    auto_ack: ClassVar[bool] = True
    """A tuple is acked when `process` has returned."""
    auto_fail: ClassVar[bool] = True
    """A tuple fails when `process` raises."""

    _current_tups: Sequence[Tuple] = ()

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: Text | None = None,
        inputs: Inputs = None,
        par: int | Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> ComponentSpec:
        """Describe this bolt as part of a `Topology`.

        `inputs` is a spec, a list of specs and streams (`spec["stream"]`), or a dict of them to
        groupings. `name` defaults to the topology's attribute, `par` and `config` to those of the
        class.
        """
        return spec_of_class("bolt", cls, name, inputs, par, config)

    def process(self, tup: Tuple) -> None:
        """Process one tuple."""
        raise NotImplementedError(f"{type(self).__name__} does not define process")

    def process_tick(self, tup: Tuple) -> None:
        """Called at each tick: every `topology.tick.tuple.freq.secs`, if that is set."""

    @staticmethod
    def is_tick(tup: Tuple) -> bool:
        """Return True for a tick tuple."""
        return tup.component == "__system" and tup.stream == "__tick"

    def emit(
        self,
        tup: Sequence[Any],
        stream: str | None = None,
        anchors: Iterable[Tuple | str] | None = None,
        direct_task: int | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        """Emit a list or tuple of values.

        `anchors` are tuples or their IDs; `[]` means none. Returns the IDs of the receiving tasks
        with `need_task_ids`, otherwise None. From another thread, that list is empty.
        """
        if anchors is None:
            anchors = self._current_tups if self.auto_anchor else ()
        ids = [each.id if isinstance(each, Tuple) else each for each in anchors]
        return self._send(tup, stream, ids, None, direct_task, need_task_ids)

    def emit_many(self, tuples: Iterable[Sequence[Any]], **kwargs: Any) -> None:
        """Emit several tuples with the same keyword arguments as `emit`."""
        for tup in tuples:
            self.emit(tup, **kwargs)

    def ack(self, tup: Tuple | str) -> None:
        """Ack a tuple, given as such or by its ID. A second ack has no effect."""
        self._task._ack(tup.id if isinstance(tup, Tuple) else tup)

    def fail(self, tup: Tuple | str) -> None:
        """Fail a tuple, given as such or by its ID."""
        self._task._fail(tup.id if isinstance(tup, Tuple) else tup)

    # Called by the host.

    def _run(self, tup: Tuple) -> None:
        """Process one tuple. After an exception, `_current_tups` are the tuples it belongs to."""
        self._current_tups = [tup]
        if self.is_tick(tup):
            self.process_tick(tup)
        else:
            self.process(tup)
        if self._acks_at_once:
            self.ack(tup)
        self._current_tups = ()

    @property
    def _acks_at_once(self) -> bool:
        return self.auto_ack

    def _handle_run_exception(self, exc: BaseException) -> None:
        """Report an exception, and fail the tuple that caused it."""
        self.raise_exception(exc, self._current_tups)
        if self.auto_fail:
            for tup in self._current_tups:
                self.fail(tup)


class BatchingBolt(Bolt):
    """Collects tuples between ticks, by `group_key`, and processes each group in one call.

    Set `topology.tick.tuple.freq.secs` in its `config`.
    """

    ticks_between_batches: ClassVar[int] = 1
    """A batch is processed at the first tick after this number of ticks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Streams and serializers of pystorm's constructor have no effect."""
        super().__init__(*args, **kwargs)
        self._batches: dict[Any, list[Tuple]] = defaultdict(list)
        self._tick_counter = 0
        self._current_key: Any = None

    def group_key(self, tup: Tuple) -> Any:
        """Return the group of a tuple, any hashable value. The default is one group for all."""
        return None

    def process_batch(self, key: Any, tups: list[Tuple]) -> None:
        """Process the tuples of a group."""
        raise NotImplementedError(f"{type(self).__name__} does not define process_batch")

    def emit(self, tup: Sequence[Any], **kwargs: Any) -> None:  # type: ignore[override]
        """Emit a list or tuple of values, as `Bolt.emit` does, but without the receiving tasks."""
        super().emit(tup, **{**kwargs, "need_task_ids": False})

    def process(self, tup: Tuple) -> None:
        """Add a tuple to its group."""
        self._batches[self.group_key(tup)].append(tup)

    def process_tick(self, tick_tup: Tuple) -> None:
        """Process all groups if enough ticks have passed."""
        self._tick_counter += 1
        if self._tick_counter > self.ticks_between_batches and self._batches:
            self.process_batches()
            self._tick_counter = 0

    def process_batches(self) -> None:
        """Process all groups, and ack their tuples with `auto_ack`."""
        for key, batch in list(self._batches.items()):
            self._current_tups, self._current_key = batch, key
            self.process_batch(key, batch)
            if self.auto_ack:
                for tup in batch:
                    self.ack(tup)
            del self._batches[key]
            self._current_tups, self._current_key = (), None

    @property
    def _acks_at_once(self) -> bool:
        return False

    def _handle_run_exception(self, exc: BaseException) -> None:
        """Report an exception. Fail its group, or all groups if the object is discarded."""
        self.raise_exception(exc, self._current_tups)
        if not self.auto_fail:
            return
        lost = list(self._batches) if self.exit_on_exception else [self._current_key]
        for key in lost:
            for tup in self._batches.pop(key, ()):
                self.fail(tup)
        for tup in self._current_tups:
            self.fail(tup)
        self._current_tups, self._current_key = (), None


class TicklessBatchingBolt(BatchingBolt):
    """Processes its batches every `secs_between_batches`.

    kstorm sends it ticks at this interval, so `process_batch` runs in the task's own thread.
    `process_tick` is not for subclasses.
    """

    secs_between_batches: ClassVar[float] = 2
    """Seconds between two calls for all groups."""

    def process_tick(self, tick_tup: Tuple) -> None:
        """Process all groups."""
        self.process_batches()

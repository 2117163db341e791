"""streamparse's spouts: `Spout`, and `ReliableSpout`, which repeats what fails."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from kstorm.errors import EmitError
from kstorm.fitting import Text, checked
from kstorm.streamparse.component import Component
from kstorm.streamparse.specs import ComponentSpec, spec_of_class


class Spout(Component):
    """A source of tuples. A tuple with a `tup_id` is acked or failed by that ID."""

    @classmethod
    @checked()
    def spec(
        cls,
        name: Text | None = None,
        par: int | Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> ComponentSpec:
        """Describe this spout as part of a `Topology`.

        `name` defaults to the topology's attribute, `par` and `config` to those of the class.
        """
        return spec_of_class("spout", cls, name, None, par, config)

    def next_tuple(self) -> None:
        """Emit the next tuple if the spout has one. It should not block."""
        raise NotImplementedError(f"{type(self).__name__} does not define next_tuple")

    def ack(self, tup_id: Any) -> None:
        """Called when the tree of the tuple with this ID is complete."""

    def fail(self, tup_id: Any) -> None:
        """Called when the tree failed or timed out. The default does nothing."""

    def activate(self) -> None:
        """Called when the spout starts emitting, and again after each `deactivate`."""

    def deactivate(self) -> None:
        """Called when the spout stops emitting."""

    def emit(
        self,
        tup: Sequence[Any],
        tup_id: Any = None,
        stream: str | None = None,
        direct_task: int | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        """Emit a list or tuple of values.

        With a `tup_id`, `ack` or `fail` is called with it later. Returns the IDs of the receiving
        tasks with `need_task_ids`, otherwise None.
        """
        return self._send(tup, stream, (), tup_id, direct_task, need_task_ids)

    def emit_many(self, tuples: Iterable[Sequence[Any]], **kwargs: Any) -> None:
        """Emit several tuples with the same keyword arguments as `emit`."""
        for tup in tuples:
            self.emit(tup, **kwargs)


class ReliableSpout(Spout):
    """Emits a failed tuple again, up to `max_fails` times. Every tuple needs a `tup_id`."""

    max_fails: ClassVar[int] = 3
    """Number of repetitions. After the last one, the tuple is treated as acked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Streams and serializers of pystorm's constructor have no effect."""
        super().__init__(*args, **kwargs)
        self.failed_tuples: Counter[Any] = Counter()
        self.unacked_tuples: dict[Any, tuple[Any, str | None, int | None, bool]] = {}

    def ack(self, tup_id: Any) -> None:
        """Forget a tuple whose tree is complete."""
        self.failed_tuples.pop(tup_id, None)
        if self.unacked_tuples.pop(tup_id, None) is None:
            self.logger.error("an ack for %r, which this spout did not emit", tup_id)

    def fail(self, tup_id: Any) -> None:
        """Emit a tuple again, or forget it after `max_fails` repetitions."""
        emitted = self.unacked_tuples.get(tup_id)
        if emitted is None:
            self.logger.error("a failure of %r, which this spout did not emit", tup_id)
        elif self.failed_tuples[tup_id] < self.max_fails:
            tup, stream, direct_task, need_task_ids = emitted
            self.emit(tup, tup_id, stream, direct_task, need_task_ids)
            self.failed_tuples[tup_id] += 1
        else:
            self.logger.info("%r failed after %s repetitions: dropped", tup_id, self.max_fails)
            self.ack(tup_id)

    def emit(
        self,
        tup: Sequence[Any],
        tup_id: Any = None,
        stream: str | None = None,
        direct_task: int | None = None,
        need_task_ids: bool = False,
    ) -> list[int] | None:
        """Emit a tuple, and keep it until it is acked.

        Raises `EmitError` without a `tup_id`.
        """
        if tup_id is None:
            raise EmitError(
                f"{type(self).__name__} is a ReliableSpout and emits without a tup_id: give one, "
                "or derive the class from Spout"
            )
        self.unacked_tuples[tup_id] = (tup, stream, direct_task, need_task_ids)
        return super().emit(tup, tup_id, stream, direct_task, need_task_ids)

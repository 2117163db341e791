"""A spout task whose trees never fail: a late tree is reported and stays pending."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from kstorm.core.dead_letters import kind_of
from kstorm.core.sendable import shown_values
from kstorm.core.spout_task import SpoutTask
from kstorm.core.tasks import Steps
from kstorm.errors import UnsendableError
from kstorm.topology import Traced


class ExactSpoutTask(SpoutTask):
    """Like `SpoutTask`, but nothing is emitted again.

    A tree that exceeds the message timeout is counted, and its timeout restarts.
    """

    def refused(self, error: UnsendableError, values: Sequence[Any], message_id: Any) -> None:
        """Write a tuple that cannot be sent to the dead letters, because it is not replayed.

        Its message is acked when the letter is stored.
        """
        note = self.report_refused(error)
        topic, partition, offset = "", -1, -1
        if message_id is not None and isinstance(self.spout, Traced):
            topic, partition, _, (offset, *_) = next(iter(self.spout.origins([message_id])))
        self.collector.dead_letter(
            f"cannot be emitted: {error}",
            value=shown_values(values),
            topic=topic,
            partition=partition,
            offset=offset,
            attempts=1,
            kind=kind_of(error),
            error=note,
            on_stored=None if message_id is None else partial(self.ack_at_once, message_id),
        )

    def tick(self, now: float) -> Steps:
        self._pass_time(now)
        overdue, self._overdue = self._overdue, {}
        if overdue:
            self.timed_out += len(overdue)
            late = (
                f"{len(overdue)} trees have been open for longer than "
                "topology_message_timeout_secs; the spout does not replay their messages"
            )
            self.on_error(TimeoutError(late), "waiting for acks")
            self._pending.put_all_new(overdue.items())
        yield from self._tell_at_once()

"""A spout task whose trees never fail: a late tree is reported and stays pending."""

from kstorm.core.spout_task import SpoutTask
from kstorm.core.user_code import Steps


class ExactSpoutTask(SpoutTask):
    """Like `SpoutTask`, but nothing is emitted again.

    A tree that exceeds the message timeout is counted, and its timeout restarts.
    """

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

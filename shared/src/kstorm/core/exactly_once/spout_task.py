"""A spout task whose trees never fail: a late tree is reported and stays pending."""

from collections.abc import Mapping
from itertools import islice

from kstorm.core.spout_task import Pending, SpoutTask
from kstorm.core.user_code import Steps


class ExactSpoutTask(SpoutTask):
    """Like `SpoutTask`, but nothing is emitted again.

    A tree that exceeds the message timeout is counted, and its timeout restarts.
    """

    def _expire(self, overdue: Mapping[int, Pending]) -> Steps:
        """Report late trees by their messages. Their slots stay taken until they end."""
        if overdue:
            some = ", ".join(repr(message_id) for message_id, _ in islice(overdue.values(), 5))
            late = (
                f"{len(overdue)} trees have been open for longer than "
                f"topology_message_timeout_secs, for example those of the messages {some}. They "
                f"take {self.in_flight} of {self.max_pending} places of topology_max_spout_pending "
                "until they end, because the spout does not replay their messages. A bolt that "
                "neither acks nor fails a tuple reports it; `kstorm why` names the task that has it"
            )
            self.on_error(TimeoutError(late), "waiting for acks")
            self._pending.put_all_new(overdue.items())
        yield from ()

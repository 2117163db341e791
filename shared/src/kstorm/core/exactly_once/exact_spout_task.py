"""A spout task whose trees never fail: a late tree is reported and stays pending."""

from collections.abc import Mapping, Sequence, Set
from functools import partial
from itertools import islice
from typing import Any

from msgspec.structs import replace

from kstorm.core.dead_letters import DeadLetter, kind_of
from kstorm.core.sendable import shown_values
from kstorm.core.spout_task import Pending, SpoutTask
from kstorm.core.user_code import Steps
from kstorm.errors import UnsendableError
from kstorm.topology import Positioned, Traced


class ExactSpoutTask(SpoutTask):
    """Like `SpoutTask`, but a message is emitted again only if an operator replays it.

    A tree that exceeds the message timeout is counted, and its timeout restarts.
    """

    repeats = False

    def refused(self, error: UnsendableError, values: Sequence[Any], message_id: Any) -> None:
        """Write a tuple that cannot be sent to the dead letters, because it is not replayed.

        Its message is acked when the letter is stored.
        """
        note = self.report_refused(error)
        topic, partition, offset, attempt = self._place_of(message_id)
        self.collector.dead_letter(
            f"cannot be emitted: {error}",
            value=shown_values(values),
            topic=topic,
            partition=partition,
            offset=offset,
            attempts=attempt,
            kind=kind_of(error),
            error=note,
            on_stored=None if message_id is None else partial(self.ack_at_once, message_id),
        )

    def inputs_of(self, roots: Set[int]) -> Mapping[int, Any]:
        """Return the message ids of these trees."""
        return {root: entry[0] for root in roots if (entry := self._pending.get(root)) is not None}

    def with_input(
        self, letter: DeadLetter, roots: Set[int], inputs: Mapping[int, Any]
    ) -> DeadLetter:
        """Add what the spout knows about the message to the letter of a tuple of its tree."""
        for root in roots & inputs.keys():
            topic, partition, offset, attempt = self._place_of(inputs[root])
            spout = self.spout
            content = spout.gave_up(inputs[root]) if isinstance(spout, Positioned) else {}
            return replace(
                letter,
                topic=topic,
                partition=partition,
                offset=offset,
                attempts=attempt,
                **content,
            )
        return letter

    def _place_of(self, message_id: Any) -> tuple[str, int, int, int]:
        """Return the coordinates of a message and its attempt, as far as the spout knows them."""
        if message_id is None or not isinstance(self.spout, Traced):
            return "", -1, -1, 1
        topic, partition, attempt, (offset, *_) = next(iter(self.spout.origins([message_id])))
        return topic, partition, offset, attempt

    def _expire(self, overdue: Mapping[int, Pending]) -> Steps:
        """Report late trees by their messages. These trees count as pending until they end."""
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

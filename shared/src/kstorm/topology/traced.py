"""Base of spouts whose messages can be traced later."""

from collections.abc import Iterable, Sequence
from typing import Any


class Traced:
    """Mixin for spouts that know the source message of each of their trees."""

    def origins(self, message_ids: Sequence[Any]) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        """Return the source messages of `message_ids`, which are in the order of the emits, as runs
        of messages.

        A run has the topic, the partition, the attempt (1 for the first) and the offset of each
        message. Called once per batch.
        """
        raise NotImplementedError

"""Base of spouts whose messages can be found again later."""

from collections.abc import Iterable, Sequence
from typing import Any


class Traced:
    """Mixin for spouts that know the source message of each of their trees."""

    def origins(self, message_ids: Sequence[Any]) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        """Return the source messages of the ids, which are in emit order, as runs of messages.

        A run has the topic, the partition, the attempt (1 for the first) and the offset of each
        message. Called once per batch.
        """
        raise NotImplementedError

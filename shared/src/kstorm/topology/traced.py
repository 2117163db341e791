"""What spouts have in common whose messages can be found again by whoever looks for one."""

from collections.abc import Iterable, Sequence
from typing import Any


class Traced:
    """Mixin of spouts that say which message of a topic each of their trees comes from."""

    def origins(self, message_ids: Sequence[Any]) -> Iterable[tuple[str, int, int, Sequence[int]]]:
        """Of message ids as they are emitted, in their order, runs of messages: topic, partition, attempt (1 for the first), and
        the offset of each. Called once a batch."""
        raise NotImplementedError

"""State that a bolt keeps across restarts (Storm's `KeyValueState`)."""

from collections.abc import Iterator
from typing import Any, Protocol


class KeyValueState(Protocol):
    """A task's own key-value table, durable up to its last checkpoint.

    Keys are strings; values are anything MessagePack can hold. A checkpoint is taken every
    `topology_state_checkpoint_interval_ms`, and the acks of the tuples executed since the one before wait for it: a
    tuple that was acked has its change in the state, whatever dies. A replayed tuple is applied again (at least once).
    """

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        ...

    def put(self, key: str, value: Any) -> None:
        """Sets a key. What is stored is the value as it is now: one that is changed in place must be put again.

        Raises `TypeError` if MessagePack cannot hold the value (an integer beyond 64 bits, an object of a class that it does
        not know) or the key is no text; `ValueError` if both together have more than 16 MiB. The state is then as it was.
        """
        ...

    def delete(self, key: str) -> Any:
        """Removes a key; returns the value that it had, None if there was none."""
        ...

    def discard(self, key: str) -> None:
        """Removes a key, if it is there. It is not read, so this costs less than `delete` where the state is larger than memory."""
        ...

    def items(self) -> Iterator[tuple[str, Any]]:
        """Every key with its value, in no order. Reads the whole table."""
        ...

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """The keys from `start` on and before `end`, in the order of their characters, with their values. Reads no more than that.

        Collect what you need before you change the state. Not in Storm, whose windows keep their tuples in pages of their own.
        """
        ...

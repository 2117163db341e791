"""State that a bolt keeps across restarts (Storm's `KeyValueState`)."""

from collections.abc import Iterator
from typing import Any, Protocol


class KeyValueState(Protocol):
    """A task's own key-value table, durable up to its last checkpoint.

    Keys are strings. Values are anything that MessagePack can hold. They are read as MessagePack
    holds them: tuples and sets as lists, bytearrays as bytes, dataclasses as dicts. Each `get`
    returns an object of its own, so changes to it need a `put`.

    A checkpoint is taken every
    `topology_state_checkpoint_interval_ms`, and the acks of the tuples executed since the previous
    one wait for it. So the change of an acked tuple is in the state, whatever crashes. A replayed
    tuple is applied again (at least once).
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        ...

    def put(self, key: str, value: Any) -> None:
        """Set a key to the value as it is now. A value that is changed in place must be put again.

        Raises `TypeError` if the key is not a string or MessagePack cannot hold the value. Examples
        are an integer beyond 64 bits and an object of an unknown class. Raises `ValueError` if both together
        exceed 16 MiB. The state is unchanged then.
        """
        ...

    def delete(self, key: str) -> Any:
        """Remove a key. Returns its former value, or None if there was none."""
        ...

    def discard(self, key: str) -> None:
        """Remove a key if it exists, without reading its value.

        This is cheaper than `delete` if the state is larger than memory.
        """
        ...

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield every key with its value, in no order. Reads the whole table."""
        ...

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the keys from `start` on and before `end`, in character order, with their values.
        Reads only these.

        Collect what you need before you change the state. Storm does not have this: its windows
        keep tuples in pages of their own.
        """
        ...

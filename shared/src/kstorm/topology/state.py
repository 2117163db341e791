"""State that a bolt keeps across restarts (Storm's `KeyValueState`)."""

from collections.abc import Iterator
from typing import Any, Protocol


class KeyValueState(Protocol):
    """A task's own key-value table, durable up to its last checkpoint.

    Keys are strings. Values may be any objects that MessagePack can encode. `get` returns the
    decoded form: lists for tuples and sets, bytes for bytearrays, dicts for dataclasses. Each `get`
    returns a new object, so a change to it needs a `put`.

    A checkpoint is taken every `topology_state_checkpoint_interval_ms`, and the acks of the tuples
    executed since the previous one wait for it. So the state contains the changes of every acked
    tuple, no matter what crashes. With at least once, a replayed tuple is applied again.
    """

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""

    def put(self, key: str, value: Any) -> None:
        """Set a key to the current content of `value`. If you change the object later, put it
        again.

        Raises `TypeError` if the key is not a string, or if MessagePack cannot encode the value.
        Examples are an integer beyond 64 bits and an object of an unknown class. Raises
        `ValueError` if key and value together exceed 16 MiB. In these cases the state does not
        change.
        """

    def delete(self, key: str) -> Any:
        """Remove a key. Returns its former value, or None if there was none."""

    def discard(self, key: str) -> None:
        """Remove a key if it exists, without reading its value.

        This is cheaper than `delete` if the state is larger than memory.
        """

    def items(self) -> Iterator[tuple[str, Any]]:
        """Yield every key with its value, in arbitrary order. Reads the whole table."""

    def range(self, start: str = "", end: str | None = None) -> Iterator[tuple[str, Any]]:
        """Yield the keys from `start` on and before `end`, in character order, with their values.
        Reads only these.

        Collect what you need before you change the state. Storm does not have this method.
        """

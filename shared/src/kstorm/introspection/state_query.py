"""The JSON of `/state`, which contains the state of a service's tasks, and its decoding by clients.

A value is plain JSON if JSON can represent it. Otherwise, for example for bytes, it is the stored
MessagePack in Base64.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

import msgspec

from kstorm.core.task_state import value_of
from kstorm.errors import FrameError

LOGIN_HEADER: Final = "X-Kstorm-Token"
"""Alternative to `Authorization`, which the API server's proxy consumes."""


class StateVersion(msgspec.Struct, frozen=True):
    """The checkpoint that an answer reflects. The answer contains everything in the checkpoint, and
    no later changes."""

    offset: int
    """Last offset of the task's changelog in the checkpoint, or -1 if it was never written."""
    time: float
    """Unix time at which the changelog had no records after that offset."""


class StateValue(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key and its value, as JSON or as MessagePack."""

    key: str
    value: Any = msgspec.UNSET
    msgpack: str = ""
    """Base64, or empty if `value` is set."""

    def read(self) -> Any:
        """Return the value. Raises `FrameError` if it cannot be decoded."""
        if self.value is not msgspec.UNSET:
            return self.value
        try:
            stored = b64decode(self.msgpack, validate=True)
        except ValueError:
            raise FrameError(f"the value of {self.key[:100]!r} is not in Base64") from None
        return value_of(self.key, stored)


class StatePage(msgspec.Struct, frozen=True):
    """Some keys of a task in order, all from one checkpoint."""

    component: str
    task: int
    as_of: StateVersion
    entries: Sequence[StateValue]
    next: str | None = None
    """Last key of this page, after which the next one starts. None on the last page."""


class StateEntry(StateValue, frozen=True, omit_defaults=True, kw_only=True):
    """A task's entry for one key, which may be absent."""

    component: str
    task: int
    as_of: StateVersion

    @property
    def there(self) -> bool:
        return self.value is not msgspec.UNSET or bool(self.msgpack)


def json_of_value(key: str, stored: bytes) -> dict[str, Any]:
    """Return the value fields of an `StateValue` for stored bytes, which need not be a valid value."""
    try:
        value = value_of(key, stored)
        if _survives_json(value):
            return {"value": value}
    except (FrameError, RecursionError):
        pass
    return {"msgpack": b64encode(stored).decode()}


def _survives_json(value: Any) -> bool:
    """Return True if JSON can represent the value without a loss."""
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return isfinite(value)
        case list():
            return all(map(_survives_json, value))
        case dict():
            return all(type(key) is str for key in value) and all(
                map(_survives_json, value.values())
            )
    return False

"""What a service says of the state of its tasks, at `/state`, as JSON, and how it is read.

A value is JSON where JSON can hold it; else, as bytes for one, what is stored of it, as MessagePack in Base64.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

import msgspec

from kstorm.core.state import value_of
from kstorm.errors import FrameError

LOGIN_HEADER: Final = "X-Kstorm-Token"
"""Where the token may stand beside `Authorization`, which the API server's proxy keeps for itself."""


class AsOf(msgspec.Struct, frozen=True):
    """Which checkpoint an answer is of: nothing in it is newer, and nothing that the checkpoint has is left out."""

    offset: int
    """The last offset of the task's changelog that is in it; -1: nothing was ever written."""
    time: float
    """A Unix time at which nothing lay behind that offset."""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key and its value, in one of two forms."""

    key: str
    value: Any = msgspec.UNSET
    msgpack: str = ""
    """In Base64; empty if `value` is set."""

    def read(self) -> Any:
        """The value. Raises `FrameError` if it is none."""
        if self.value is not msgspec.UNSET:
            return self.value
        try:
            stored = b64decode(self.msgpack, validate=True)
        except ValueError:
            raise FrameError(f"the value of {self.key[:100]!r} is not in Base64") from None
        return value_of(self.key, stored)


class Page(msgspec.Struct, frozen=True):
    """Some keys of a task in their order, all of one checkpoint."""

    component: str
    task: int
    as_of: AsOf
    entries: Sequence[Entry]
    next: str | None = None
    """Behind which key to go on; None if this was the last."""


class Found(Entry, frozen=True, omit_defaults=True, kw_only=True):
    """What a task has under one key."""

    component: str
    task: int
    as_of: AsOf

    @property
    def there(self) -> bool:
        """Whether the task has such a key."""
        return self.value is not msgspec.UNSET or bool(self.msgpack)


def in_json(key: str, stored: bytes) -> dict[str, Any]:
    """The value of an `Entry`, of what is stored, which need not be a value."""
    try:
        value = value_of(key, stored)
        if _fits(value):
            return {"value": value}
    except (FrameError, RecursionError):
        pass
    return {"msgpack": b64encode(stored).decode()}


def _fits(value: Any) -> bool:
    """Whether JSON gives back the same."""
    match value:
        case None | bool() | int() | str():
            return True
        case float():
            return isfinite(value)
        case list():
            return all(map(_fits, value))
        case dict():
            return all(type(key) is str for key in value) and all(map(_fits, value.values()))
    return False

"""Refuses values that no record can hold, at the moment when they are emitted.

The whole tuple is encoded once into a scratch buffer, which costs about 0.1 µs for a short one. So
the exception names the field, and its trace ends in the line of user code that emits the tuple.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from reprlib import Repr
from typing import Any, Final

import msgspec

from kstorm.core.frame_limits import MOST_VALUES, within
from kstorm.errors import EmitError, TupleTooLargeError, UnsendableError
from kstorm.texts import encodable
from kstorm.topology import Fields

_encoder = msgspec.msgpack.Encoder()
encode_into: Final = _encoder.encode_into
_skip = msgspec.msgpack.Decoder(msgspec.Raw).decode
scratch = bytearray()
ROWS: Final = frozenset({list, tuple})
"""The usual types of a tuple's values."""


def check_values(emitter: str, values: object) -> None:
    """Raise `EmitError` for an object whose elements are not the values of a tuple, in order.

    Python can iterate over it, so its characters or keys would be emitted.
    """
    if isinstance(values, str | bytes | bytearray | Mapping | Set) or not (
        hasattr(values, "__len__") and hasattr(values, "__iter__")
    ):
        raise EmitError(
            f"{emitter} emits {values!r:.100}, which is of type {type(values).__name__}: emit a "
            "list with one value per field"
        )


_FLAT: Final = frozenset((str, bytes))
_SMALL: Final = frozenset((int, float, bool, type(None)))
_SMALL_BYTES: Final = 9
"""Most bytes of an encoded number."""
_HEADER_VALUES: Final = 1000
"""Values of a frame that are not values of its tuples, at most."""
_shown = Repr()
_shown.maxother = _shown.maxstring = _shown.maxlong = 60


class Sendable:
    """Checks the tuples of one stream of one task."""

    __slots__ = ("_component", "_fields", "_most", "_stream", "short")

    def __init__(self, component: str, stream: str, fields: Fields, most: int) -> None:
        """`most`: bytes of the encoded values (`topology_frame_max_bytes`)."""
        self._component, self._stream, self._most = component, stream, most
        self._fields = tuple(fields)
        self.short = min(most, MOST_VALUES)
        """A tuple can be sent if it can be encoded in at most this number of bytes."""

    def guarding(
        self, choose: Callable[[Sequence[Any]], Sequence[Any]]
    ) -> Callable[[Sequence[Any]], Sequence[Any]]:
        """Return a chooser that raises `UnsendableError` instead of choosing for such a tuple."""
        look_closer, short = self.check, self.short

        def guarded(values: Sequence[Any]) -> Sequence[Any]:
            try:
                encode_into(values, scratch)
            except Exception:  # noqa: BLE001 - the encoder calls methods of the values
                look_closer(values)
            else:
                if len(scratch) > short:
                    look_closer(values)
            return choose(values)

        return guarded

    def check(self, values: Sequence[Any]) -> None:
        """Raise `UnsendableError`, with the field and the reason, if a tuple cannot be sent."""
        sizes = []
        for field, value in zip(self._fields, values, strict=False):
            try:
                encoded = _encoder.encode(value)
                _skip(encoded)
            except Exception as error:  # noqa: BLE001 - as in `guarding`
                raise UnsendableError(
                    f"{self._what} cannot be sent: its field {field!r} holds {shown(value)}, and "
                    f"{_why(error)}"
                ) from None
            if not within(encoded, MOST_VALUES - _HEADER_VALUES):
                raise TupleTooLargeError(
                    f"{self._what} is too large: its field {field!r} has more than "
                    f"{MOST_VALUES - _HEADER_VALUES:,} values, which is the limit for a frame"
                )
            sizes.append(len(encoded))
        if sum(sizes) > self._most:
            largest = max(range(len(sizes)), key=sizes.__getitem__)
            raise TupleTooLargeError(
                f"{self._what} is too large: it has {sum(sizes):,} bytes encoded, "
                f"{sizes[largest]:,} of them in its field {self._fields[largest]!r}; the limit is "
                f"{self._most:,} (topology_frame_max_bytes)"
            )

    def check_columns(self, columns: Sequence[list[Any]]) -> None:
        """Check a batch, and raise for its first tuple that cannot be sent."""
        try:
            size = len(_encoder.encode(columns))
        except Exception:  # noqa: BLE001 - as in `guarding`
            size = None
        if size is not None and (size <= self.short or self._all_short(columns)):
            return
        for values in zip(*columns, strict=True):
            self.check(values)

    def unsendable_rows(self, rows: Sequence[Sequence[Any]]) -> dict[int, UnsendableError]:
        """Return the error of each tuple of a batch that cannot be sent, by its position."""
        found = {}
        for row, values in enumerate(rows):
            try:
                self.check(values)
            except UnsendableError as error:
                found[row] = error
        return found

    def _all_short(self, columns: Sequence[list[Any]]) -> bool:
        """Return True if the longest values of all columns together would fit into one tuple."""
        size = 0
        for column in columns:
            kinds = {*map(type, column)}
            if kinds <= _SMALL:
                size += _SMALL_BYTES
            elif kinds <= _FLAT:
                size += 5 + 4 * max(map(len, column))
            else:
                return False
        return size <= self._most

    @property
    def _what(self) -> str:
        return f"a tuple of {self._component!r} on the stream {self._stream!r}"


def shown(value: Any) -> str:
    """Return a short form of any value, whatever its size, depth or `__repr__`."""
    try:
        return encodable(_shown.repr(value))
    except Exception:  # noqa: BLE001 - a huge integer has no repr, and user code may raise anything
        return f"a value of type {type(value).__name__}"


def shown_values(values: Any) -> bytes:
    """Return values as JSON for a dead letter. Values that JSON cannot hold are shown as text."""
    try:
        return msgspec.json.encode(values, enc_hook=shown)
    except Exception:  # noqa: BLE001 - as above
        return msgspec.json.encode(shown(values))


def _why(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply, or contains itself"
    if isinstance(error, OverflowError):
        return (
            "MessagePack holds integers from -2**63 to 2**64 - 1: emit a larger one as text or as "
            "a float"
        )
    if isinstance(error, UnicodeEncodeError):
        return f"UTF-8 cannot encode the character at {error.start} ({error.reason})"
    return f"it cannot be encoded as MessagePack: {error}"

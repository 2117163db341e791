"""The hash that decides which task gets a key."""

from collections.abc import Sequence
from typing import Any, Final
from zlib import crc32

import msgspec

from kstorm.errors import EmitError
from kstorm.topology.keys import UNENCODABLE, hash_form, shown

_encode: Final = msgspec.msgpack.Encoder(order="deterministic").encode


def stable_hash(values: Sequence[Any]) -> int:
    """Return a 32-bit hash that is the same in every process for the same key.

    Raises `EmitError` if a value cannot be a key.
    """
    try:
        return crc32(_encode([hash_form(value) for value in values]))
    except UNENCODABLE as error:
        raise EmitError(f"cannot group by {shown(list(values))}: {error}") from None

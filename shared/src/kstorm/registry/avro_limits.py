"""Counts the values of an Avro record before it is decoded.

Decoded data takes more memory than its bytes: a record with one number may have one byte, and takes
200 in Python. An item may even have no bytes, so ten bytes can claim a quintillion items. Therefore
kstorm scans the bytes according to their writer's schema, without creating objects. It does not
scan records that are short enough for their schema.
"""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka.schema_registry.serde import SchemaId

from kstorm.formats import AVRO
from kstorm.formats.varint import varint_at
from kstorm.kafka.message_limits import too_many
from kstorm.registry.avro_plan import (
    MOST_DECIMAL_BYTES,
    MOST_LEVELS,
    AvroScanPlan,
    BodyPlan,
    Op,
    SkipStep,
    plan_of,
)

if TYPE_CHECKING:
    from kstorm.registry.client import NonBlockingRegistryClient

_SHORTEST: Final = 6
"""Minimum bytes of a record: schema id plus one byte. The deserializer rejects shorter ones."""
_MASK: Final = 2**64 - 1
_SMALL: Final = frozenset(range(0, 128, 2))
"""First bytes of non-negative varints that consist of one byte."""
_BY_GUID: Final = 1
"""First byte of a record that identifies its schema by a 16-byte GUID instead of a 4-byte id."""


class AvroValueLimit:
    """Checks records before they are decoded. Plans are cached by the record's schema prefix."""

    def __init__(
        self, client: "NonBlockingRegistryClient", parse: Callable[[Any], Any], most: int
    ) -> None:
        """`parse` converts a registry's `Schema` to the decoder's form. `most`: maximum values."""
        self._client = client
        self._parse = parse
        self._most = most
        self._plans: dict[bytes, tuple[AvroScanPlan, float]] = {}

    def check(self, data: bytes) -> None:
        """Raise `ValueError` if the record has too many values or is nested too deeply.

        Raises `NotYetError` while the registry has not returned the schema.
        """
        if len(data) < _SHORTEST or data[0] > _BY_GUID:
            return
        head = data[:17] if data[0] == _BY_GUID else data[:5]
        plan, harmless = self._plans.get(head) or self._learn(head)
        if len(data) - len(head) > harmless:
            count(plan, data, len(head), self._most)

    def _learn(self, head: bytes) -> tuple[AvroScanPlan, float]:
        """Return the plan and the maximum record length that needs no scan."""
        told = SchemaId(AVRO.kind)
        told.from_bytes(BytesIO(head))
        ask = self._client
        schema = (
            ask.get_schema_by_guid(str(told.guid)) if told.id is None else ask.get_schema(told.id)
        )
        plan = plan_of(self._parse(schema))
        made = self._plans[head] = plan, plan.harmless(self._most)
        return made


def count(plan: AvroScanPlan, data: bytes, at: int, most: int) -> int:
    """Count the values from `at`, including nested ones and field names.

    Raises `ValueError` as soon as there are more than `most`, and if the record is nested too
    deeply or does not match the schema.
    """
    walk = _RecordScan(data, most)
    try:
        end = walk.over((plan.op,), 1, at, 0)
    except IndexError:
        end = len(data) + 1
    if end > len(data):
        raise ValueError("it ends too early, or does not match its schema")
    return walk.values


class _RecordScan:
    def __init__(self, data: bytes, most: int) -> None:
        self.values = 1
        self._data = data
        self._most = most

    def over(self, ops: Sequence[Op], times: int, at: int, level: int) -> int:
        """Return the end offset of the items that begin at `at`.

        In a truncated record, this is beyond the data, or it raises `IndexError`.
        """
        if level > MOST_LEVELS:
            raise ValueError(f"its values are nested more than {MOST_LEVELS} levels deep")
        data = self._data
        for _ in range(times if ops else 0):
            for step, what in ops:
                while step is UNION:
                    branch, at = (
                        (data[at] >> 1, at + 1) if data[at] in _SMALL else _signed_at(data, at)
                    )
                    step, what = what[branch]
                if step is FIXED:
                    at += what
                elif step is NUMBER:
                    at = at + 1 if data[at] < 128 else varint_at(data, at)[1]
                elif step is BYTES or step is DECIMAL:
                    length, at = (
                        (data[at] >> 1, at + 1) if data[at] in _SMALL else _signed_at(data, at)
                    )
                    if length < 0 or (step is DECIMAL and length > MOST_DECIMAL_BYTES):
                        raise _wrong_length(step, length)
                    at += length
                elif step is RECORD:
                    self._add(what.values)
                    at = self.over(what.ops, 1, at, level + 1)
                else:
                    at = self._blocks(what, at, level + 1)
        return at

    def _blocks(self, body: BodyPlan, at: int, level: int) -> int:
        while True:
            items, at = _signed_at(self._data, at)
            if not items:
                return at
            # The block's size in bytes follows. The decoder ignores it, too.
            if items < 0:
                items, at = -items, varint_at(self._data, at)[1]
            self._add(items * body.values)
            at = self.over(body.ops, items, at, level)

    def _add(self, values: int) -> None:
        self.values += values
        if self.values > self._most:
            raise too_many("it", self._most)


def _signed_at(data: bytes, at: int) -> tuple[int, int]:
    found, end = varint_at(data, at)
    found &= _MASK  # the decoder also truncates to 64 bits
    return (found >> 1) ^ -(found & 1), end


def _wrong_length(step: SkipStep, length: int) -> ValueError:
    most = f", but the maximum is {MOST_DECIMAL_BYTES:,}" if step is DECIMAL else ""
    return ValueError(
        f"it has {'a decimal' if step is DECIMAL else 'a value'} of {length:,} bytes{most}"
    )


FIXED, NUMBER, BYTES, DECIMAL, UNION, RECORD = list(SkipStep)[:6]

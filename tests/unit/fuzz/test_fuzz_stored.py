"""For any stored data, kstorm reads it or raises a named error."""

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.dead_letters import DeadLetter, decode_letter, encode_letter
from kstorm.core.ledger import check_bucket
from kstorm.core.task_state import TaskState, check_pair
from kstorm.errors import ConfigError, FrameError
from kstorm.kafka.offsets import StoredOffset, TopologyRef
from kstorm.kafka.ports import Broker, Partition
from tests.unit.core.acker import Acker
from tests.unit.fuzz.hostile import LIES, anything, bounded, numbers, values

P0 = Partition("sentences", 0)
OFFSET = StoredOffset.of(TopologyRef("words-1", "words"), P0, 2, Broker("kafka-0", 9092))
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def bucket() -> bytes:
    """Builds a stored bucket of three rows."""
    acker = Acker()
    for root in (32, 64, 96):
        acker.init(root, root + 1)
    (stored,) = acker.ledger.checkpoint().values()
    return stored


@given(
    st.binary(max_size=5) | st.sampled_from([b"0", b"31", b"32", b"-1", b"\xb2"]),
    anything(st.just(bucket())),
)
def test_a_bucket_is_restored_or_refused(key: bytes, value: bytes) -> None:
    """A bucket that passes the changelog check can be restored, and the ledger works with it."""
    try:
        bounded(value, lambda value: check_bucket(key, value))
    except FrameError:
        with pytest.raises(FrameError):
            Acker({key: value})
        return
    acker = bounded(value, lambda value: Acker({key: value}, at=2**62))
    acker.ledger.rotate()
    acker.init(0xFEED, 0b110)
    acker.ack(0xFEED, 0b110)
    assert 0xFEED in [root for roots in acker.told.get("acked", {}).values() for root in roots]


@given(st.binary(max_size=5), anything(values.map(msgspec.msgpack.encode)) | st.none())
def test_a_pair_of_a_state_is_read_or_refused(key: bytes, value: bytes | None) -> None:
    """A pair that passes the check can be read. An invalid pair on disk is named when it is read."""
    stored = {} if value is None else {key: value}  # None deletes
    state = TaskState(stored.get, lambda start: stored.items())
    try:
        bounded(value or b"", lambda _: check_pair(key, value))
    except FrameError:
        if not stored:
            return
        with pytest.raises(FrameError):
            list(state.items())
        with suppress(UnicodeDecodeError), pytest.raises(FrameError):
            state.get(key.decode())
        return
    assert len(list(state.items())) == len(stored)
    state.get(key.decode(), "absent")


@given(
    anything(st.just(OFFSET.to_json()))
    | json_values.map(msgspec.json.encode)
    | numbers.map(lambda offset: OFFSET.to_json().replace(b'"offset":2', b'"offset":%d' % offset))
    | st.sampled_from(
        [b"[" * 5000, b'{"topology":' * 5000, OFFSET.to_json()[:-1] + b',"more":' + b"[" * 5000]
    )
)
def test_an_offset_is_read_or_refused(data: bytes) -> None:
    """A valid offset exists in Kafka.

    For example, -1 would mean the end and skip the whole partition.
    """
    with suppress(ConfigError):
        stored = bounded(
            data, lambda data: StoredOffset.from_json(data, P0, "/kstorm/words/partition_0")
        )
        assert 0 <= stored.offset < 2**63


@given(
    anything(st.binary(max_size=20).map(lambda value: encode_letter(letter(value=value))))
    | json_values.map(msgspec.json.encode)
)
def test_a_dead_letter_is_read_or_refused(data: bytes) -> None:
    """Reading raises only `FrameError`."""
    with suppress(FrameError):
        assert isinstance(bounded(data, decode_letter), DeadLetter)


@given(
    st.text(st.characters(), max_size=3),
    st.integers(0, 2_000_000),
    st.integers(0, 1_000_000),
    st.booleans(),
)
def test_a_dead_letter_can_be_written(
    reason: str, length: int, key_length: int, long: bool
) -> None:
    """Any reason and any message give a letter within Kafka's default record size."""
    found = letter(
        reason=reason * 400_000 if long else reason, value=bytes(length), key=bytes(key_length)
    )
    data = encode_letter(found)
    assert len(data) < 1_000_000 * 0.9
    assert decode_letter(data).offset == 7


def letter(**changes: Any) -> DeadLetter:
    parts: dict[str, Any] = {
        "topology": "t",
        "component": "c",
        "task": 1,
        "reason": "why",
        "offset": 7,
        **changes,
    }
    return DeadLetter(**parts)


# Cases that these tests found.


@pytest.mark.parametrize("offset", [-1, -2, -1001, 2**63, 2**64 - 1])
def test_an_offset_that_kafka_cannot_have_is_refused(offset: int) -> None:
    """For the client, negative offsets mean beginning and end. Larger ones exceed 63 bits."""
    data = OFFSET.to_json().replace(b'"offset":2', b'"offset":%d' % offset)
    with pytest.raises(ConfigError, match=r"/node holds .*an offset is a number from 0 to"):
        StoredOffset.from_json(data, P0, "/node")


def test_a_deep_offset_is_refused() -> None:
    """The recursion depth is limited."""
    with pytest.raises(ConfigError, match="not a stored offset"):
        StoredOffset.from_json(b'{"x":' * 100_000, P0, "/node")


def test_a_reason_of_half_characters_can_be_written() -> None:
    """A user's scheme may quote text that it decoded with `errors="surrogateescape"`."""
    assert (
        decode_letter(encode_letter(letter(reason="no date: \udcff"))).reason == r"no date: \udcff"
    )


def test_a_long_reason_is_cut() -> None:
    """A frame's stream name may have a megabyte, and its refusal quotes it."""
    reason = decode_letter(encode_letter(letter(reason="x" * 1_000_000))).reason
    assert reason.startswith("xxx")
    assert len(reason) == 2001


def test_large_message_is_cut_and_marked() -> None:
    """Value and key are cut, but the coordinates are complete."""
    found = decode_letter(encode_letter(letter(value=bytes(900_000), key=bytes(500_000))))
    assert (len(found.value or b""), len(found.key or b"")) == (350_000, 100_000)
    assert "the first 350000 of its 900000 bytes are kept" in found.reason


def test_ledger_tombstone_is_refused() -> None:
    """A ledger's changelog has no tombstones of kstorm. In a state's changelog they delete keys."""
    with pytest.raises(FrameError, match="bucket 3 has no value"):
        check_bucket(b"3", None)
    check_pair(b"key", None)


@pytest.mark.parametrize("value", LIES[:-3])
def test_unreadable_state_value_names_its_key(value: bytes) -> None:
    """The tuple that needs it fails with the key's name."""
    with suppress(FrameError):
        list(TaskState({b"apple": value}.get, lambda start: {b"apple": value}.items()).items())
        return
    with pytest.raises(FrameError, match="under the key 'apple' are not a value"):
        TaskState({b"apple": value}.get, lambda start: {b"apple": value}.items()).get("apple")

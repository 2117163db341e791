"""A value is read as it was put, for any value that MessagePack can encode."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import FrameError
from kstorm.introspection.state_query import StateValue, json_of_value

SIMPLE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
)
ANY = st.recursive(
    SIMPLE,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=4) | st.integers(0, 9), inner, max_size=4)
    ),
    max_leaves=12,
)


def through_json(stored: bytes) -> tuple[Any, dict[str, Any]]:
    """Returns the value that a client reads, and the response."""
    page = msgspec.json.encode({"key": "k", **json_of_value("k", stored)})
    return msgspec.json.decode(page, type=StateValue).read(), msgspec.json.decode(page)


@given(ANY)
def test_value_round_trip(value: Any) -> None:
    """Type and bytes are equal."""
    stored = msgspec.msgpack.encode(value)
    read, _ = through_json(stored)
    assert msgspec.msgpack.encode(read) == stored


@pytest.mark.parametrize("value", [1, 2**64 - 1, 1.0, "ß", None, [1, {"a": None}], {}])
def test_json_values_stay_json(value: Any) -> None:
    assert through_json(msgspec.msgpack.encode(value))[1] == {"key": "k", "value": value}


@pytest.mark.parametrize(
    "value", [b"x", [b"x"], {1: 2}, float("nan"), float("inf"), msgspec.msgpack.Ext(5, b"")]
)
def test_other_values_are_in_base64(value: Any) -> None:
    assert through_json(msgspec.msgpack.encode(value))[1].keys() == {"key", "msgpack"}


def test_invalid_value_is_refused_by_the_reader() -> None:
    entry = StateValue("k", **json_of_value("k", b"\xc1"))
    with pytest.raises(FrameError, match="under the key 'k'"):
        entry.read()
    with pytest.raises(FrameError, match="'k' is not in Base64"):
        StateValue("k", msgpack="!").read()

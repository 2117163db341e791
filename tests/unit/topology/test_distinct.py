"""`DistinctBolt` drops repeated ids, within the limit of its memory."""

from collections.abc import Callable
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.testing import BoltTester
from kstorm.topology import DistinctBolt

Tester = Callable[..., BoltTester[Any]]


def test_an_id_is_passed_on_once(bolt_tester: Tester) -> None:
    """It has the requested fields, and every tuple is acked."""
    bolt = bolt_tester(DistinctBolt("value", "id"), "id", "value")
    for id, value in ((1, "a"), (2, "b"), (1, "c"), ("1", "d")):
        bolt.give([id, value])
    assert bolt.emitted() == [["a"], ["b"], ["d"]]
    assert len(bolt.acked) == 4


def test_memory_is_limited(bolt_tester: Tester) -> None:
    """The state does not grow. A repetition does not refresh an id."""
    bolt = bolt_tester(DistinctBolt(["id"], "id", window=2), "id")
    for id in (1, 2, 1, 3, 1, 2, 3):
        bolt.give([id])
    assert bolt.emitted() == [[1], [2], [3], [1], [2], [3]]
    assert len(dict(bolt.bolt.state.items())) == 2 * 2 + 1


def test_a_window_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="window is 0"):
        DistinctBolt("id", "id", window=0)


def test_ids_are_compared_as_keys(bolt_tester: Tester) -> None:
    """NaN is one id, and so are equal numbers. Text and integer keys are those of 0.1."""
    bolt = bolt_tester(DistinctBolt("n", "id"), "id", "n")
    ids: list[Any] = [1, 1.0, True, "1", b"1", "MQ==", None, "None", {"a": 1, "b": 2}]
    ids += [{"b": 2, "a": 1.0}, [1], (1.0,), float("nan"), float("nan"), float("inf"), "it's"]
    for number, id in enumerate(ids):
        bolt.give([id, number])
    assert [number for (number,) in bolt.emitted()] == [0, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 15]
    keys = {key for key, _ in bolt.bolt.state.items()}
    assert {"=1", "='1'", '="it\'s"'} <= keys

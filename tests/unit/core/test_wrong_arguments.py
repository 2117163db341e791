"""Arguments of another type, given to the collector and the state of a bolt."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from kstorm.core.task_state import TaskState
from kstorm.errors import ArgumentError
from kstorm.topology import Tuple
from kstorm.windows.executor import PrefixedState
from tests.unit.core.bolt_harness import Harness, Plain
from tests.unit.core.exact_harness import ExactHarness


class Calls(Plain):
    """Calls one method of its collector for each tuple, and keeps the error."""

    def __init__(self, name: str, value: Any, other_thread: bool = False) -> None:
        super().__init__()
        self.call: Callable[[], Any] = lambda: getattr(self.collector, name)(value)
        self.other_thread = other_thread
        self.error: Exception | None = None

    def execute(self, tuple: Tuple) -> None:
        if self.other_thread:
            thread = threading.Thread(target=self.attempt)
            thread.start()
            thread.join()
        else:
            self.attempt()
        self.collector.ack(tuple)

    def attempt(self) -> None:
        try:
            self.call()
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.error = error


CALLS = [
    ("ack", "tuple", "a Tuple"),
    ("fail", "tuple", "a Tuple"),
    ("reset_timeout", "tuple", "a Tuple"),
    ("ack_batch", "batch", "a TupleBatch"),
    ("fail_batch", "batch", "a TupleBatch"),
]


@pytest.mark.parametrize(("name", "parameter", "wanted"), CALLS)
@pytest.mark.parametrize("value", [None, "word"])
@pytest.mark.parametrize("other_thread", [False, True])
@pytest.mark.parametrize("exact", [False, True])
def test_collector_names_a_wrong_argument(
    name: str, parameter: str, wanted: str, value: Any, other_thread: bool, exact: bool
) -> None:
    """Where it is called, and also if another thread calls it."""
    bolt = Calls(name, value, other_thread)
    if exact:
        ExactHarness(bolt).give(1, "a")
    else:
        Harness(bolt).give(("a", 1, 1))
    assert isinstance(bolt.error, ArgumentError)
    assert str(bolt.error) == f"{name}: {parameter} is {value!r}: it must be {wanted}"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 2), "range: start is 1: it must be text"),
        ((None,), "range: start is None: it must be text"),
        (("a", 2), "range: end is 2: it must be text or None"),
    ],
)
@pytest.mark.parametrize("make", [lambda state: state, lambda state: PrefixedState(state, "p/")])
def test_range_names_a_wrong_argument_at_the_call(
    make: Callable[[TaskState], Any], arguments: tuple[Any, ...], message: str
) -> None:
    """The call raises, before anything is consumed."""
    state = make(TaskState(lambda key: None, lambda start: ()))
    with pytest.raises(ArgumentError) as refused:
        state.range(*arguments)
    assert str(refused.value) == message


@pytest.mark.parametrize("key", [None, 1, b"a", ["a"]])
def test_get_names_a_wrong_key(key: Any) -> None:
    """As `put` does."""
    state = TaskState(lambda key: None, lambda start: ())
    with pytest.raises(TypeError, match=r"the state's keys are text, but .* is"):
        state.get(key)

"""The end of `kstorm export-traces --follow`."""

import os
import signal
from collections.abc import Iterator

import pytest

from kstorm.cli.export_traces import ends_quietly


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_the_command_normally(number: int) -> None:
    with ends_quietly():
        os.kill(os.getpid(), number)
        pytest.fail("the signal did not interrupt the block")


def test_error_that_replaces_the_interrupt_ends_the_command_normally() -> None:
    """A C function that is interrupted may raise its own error."""
    with ends_quietly():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        except KeyboardInterrupt:
            raise ValueError("Group name is mandatory") from None


def test_any_other_error_is_raised() -> None:
    with pytest.raises(ValueError, match="Group name"), ends_quietly():
        raise ValueError("Group name is mandatory")

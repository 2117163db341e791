"""A web server that a test leaves listening would serve the next test of the same process."""

from collections.abc import Iterator

import pytest

from kstorm.runtime.base import open_port


@pytest.fixture(autouse=True)
def no_kept_port() -> Iterator[None]:
    """Fails the test that leaves a port open, instead of the test that runs after it."""
    yield
    left = open_port.take()
    for each in left:
        each.close()
    open_port.close()
    assert not left, f"{len(left)} listening sockets are still kept: call `open_port.close()`"

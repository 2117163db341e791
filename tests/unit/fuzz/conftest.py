"""Every decoder runs as in a small pod: with little memory, and not for ever."""

import resource
import signal
from collections.abc import Iterator

import psutil
import pytest

_TO_SPARE = 400_000_000
"""Bytes above what the process has already, for the decoder, the test's own data and what threads are given for their stacks."""
_CPU_SECS = 120
"""Processor time of one test. Of each input it takes milliseconds."""


@pytest.fixture(autouse=True)
def small_pod() -> Iterator[None]:
    """More memory is a `MemoryError`. More time ends the process, as a decoder in C hears no signal."""
    unlimited = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(
        resource.RLIMIT_DATA, (psutil.Process().memory_info().data + _TO_SPARE, unlimited[1])
    )
    before = signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, _CPU_SECS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_DATA, unlimited)

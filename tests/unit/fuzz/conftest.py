"""Every decoder runs as in a small pod: with little memory and limited time."""

import resource
import signal
from collections.abc import Iterator

import psutil
import pytest

_TO_SPARE = 400_000_000
"""Bytes beyond the process's present memory, for the decoder, the test's data and thread stacks."""
_CPU_SECS = 120
"""Processor time of one test. Each input takes milliseconds."""


@pytest.fixture(autouse=True)
def small_pod() -> Iterator[None]:
    """Raises `MemoryError` beyond the memory limit, and ends the process beyond the time limit.

    A signal handler of Python would not interrupt a decoder in C.
    """
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

"""The garbage collector of a process that runs tests."""

import gc


def collect_rarely() -> None:
    """Make the collector run less often.

    With Python's thresholds, it takes a fifth of a simulated schedule's CPU time, and finds little.
    """
    gc.set_threshold(50_000, 20, 100)

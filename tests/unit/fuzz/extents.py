"""The memory of a call, in C too, the number of values in its result, and a spout's reaction."""

import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

from confluent_kafka import Message

from kstorm.kafka import KafkaHosts, SchemeAsMultiScheme, SpoutConfig
from kstorm.kafka.partition_manager import PartitionManager
from kstorm.kafka.ports import Partition, SourceMessage
from kstorm.kafka.scheme import Scheme
from tests.unit.kafka.conftest import FakeCollector

TO_SPARE: Final = 100_000_000
"""The limit in bytes for decoding any input."""

_PEAK = Path("/proc/self/clear_refs")


def memory_of(call: Callable[[], Any]) -> int:
    """Returns the peak memory of a call. The memory of C libraries is known on Linux only."""
    if not _PEAK.exists():
        return _traced(call)
    before = _resident("VmRSS")
    _PEAK.write_text("5")  # restarts the measurement of the peak
    call()
    return _resident("VmHWM") - before


def _traced(call: Callable[[], Any]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _resident(what: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(what))


def counted(value: Any) -> int:
    """Counts values, nested values, and keys of dicts."""
    if isinstance(value, dict):
        return 1 + len(value) + sum(map(counted, value.values()))
    return 1 + sum(map(counted, value)) if isinstance(value, list | tuple) else 1


def read_all(scheme: Scheme, values: list[bytes]) -> tuple[list[Any], list[Any]]:
    """Returns the dead letters and tuples of these messages, after a look-up of the first schema."""
    collector = FakeCollector()
    rows: list[Any] = []
    config = SpoutConfig(KafkaHosts(), "t", "/r", "i", scheme=SchemeAsMultiScheme(scheme))
    manager = PartitionManager(Partition("t", 0), config, cast("Any", collector), offset=0)
    manager.fill(
        [cast("SourceMessage", Message("t", 0, at, None, value)) for at, value in enumerate(values)]
    )
    deadline = time.monotonic() + 20
    while len(collector.letters) + len(rows) < len(values):
        manager.take(0.0, 9, 9, rows, [])
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return collector.letters, rows

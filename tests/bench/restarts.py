"""Measures how soon a topology continues after one of its processes was killed."""

import statistics
import time
from typing import Any, Final

from confluent_kafka import Consumer, TopicPartition
from rich.table import Table

from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.errors import LocalError
from tests.bench.feed import BenchProducer
from tests.bench.run_parameters import PARTITIONS, RunParameters

_KILLS: Final = 3
_REST_SECS: Final = 2.0
"""Time between a process being ready and the next kill."""
_PATIENCE_SECS: Final = 120.0
_LOOK_SECS: Final = 0.02


def measure_restarts(
    processes: LocalProcesses, terms: RunParameters
) -> dict[str, dict[str, list[float]]]:
    """Kill each process three times, one at a time.

    Returns for each process the seconds from SIGKILL until it is ready again, `ready_s`, and until a
    sentence written right after SIGKILL is counted, `counted_s`. Both include the supervisor's
    delay of 1 s.
    """
    sink = Consumer({"bootstrap.servers": terms.bootstrap, "group.id": "bench-restarts"})
    try:
        sink.assign(
            [
                TopicPartition(terms.sink, number, _end(sink, terms.sink, number))
                for number in range(PARTITIONS)
            ]
        )
        found = {}
        for worker in processes.workers:
            kills = [_kill(worker, terms, sink, number) for number in range(_KILLS)]
            found[worker.name] = {
                "ready_s": [ready for ready, _ in kills],
                "counted_s": [counted for _, counted in kills],
            }
    finally:
        sink.close()
    return found


def restart_table(found: dict[str, Any]) -> Table:
    """Return the medians, and the greatest in brackets."""
    table = Table("process killed", "s until it is ready", "s until a new sentence is counted")
    for name, seconds in found.items():
        table.add_row(
            name,
            *(
                f"{statistics.median(seconds[key]):.1f} ({max(seconds[key]):.1f})"
                for key in ("ready_s", "counted_s")
            ),
        )
    return table


def _end(sink: Consumer, topic: str, partition: int) -> int:
    _, end = sink.get_watermark_offsets(TopicPartition(topic, partition), _PATIENCE_SECS)
    return end


def _kill(worker: Worker, terms: RunParameters, sink: Consumer, number: int) -> tuple[float, float]:
    """Return the seconds until the process is ready, and until a new word is counted."""
    time.sleep(_REST_SECS)
    word = f"{worker.name}-killed-{number}"
    producer = BenchProducer(terms.bootstrap, terms.source)
    began, ready, counted = time.monotonic(), 0.0, 0.0
    worker.process.kill()
    producer.send(0, word)
    producer.flush()
    while not ready or not counted:
        now = time.monotonic() - began
        if now > _PATIENCE_SECS:
            raise LocalError(f"{worker.name} is not back {now:.0f} s after SIGKILL")
        record = sink.poll(_LOOK_SECS)
        if record is not None and record.key() == word.encode():
            counted = time.monotonic() - began
        if not ready:
            status = worker.status()
            if status is not None and not status["not_ready"]:
                ready = time.monotonic() - began
    return ready, counted

"""Measures the processes of a small topology when they start, when they are idle, and after SIGKILL.

Each component has one process with several tasks. The figures are CPU seconds until a process is
ready, and its CPU share, wake-ups, threads and memory while nothing happens.
"""

import json
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import psutil
from rich.console import Console
from rich.table import Table

from kstorm.dev.endpoints import open_endpoints
from kstorm.dev.local_processes import LocalProcesses, Worker
from kstorm.dev.paths import run_directory
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import ensure_topics
from tests.bench import corpus
from tests.bench.broker import Broker
from tests.bench.feed import fill
from tests.bench.restarts import measure_restarts, restart_table
from tests.bench.run_parameters import RunParameters

_REFERENCE: Final = "tests.bench.plain:topology"
_SENTENCES: Final = 5000
_READY_SECS: Final = 300.0
_REST_SECS: Final = 5.0
"""Time after the last count until the processes are idle."""


def run_footprint(tasks: int, guarantee: str, seconds: float, report: Path | None) -> int:
    """Measure `seconds` of an idle topology that has counted some sentences."""
    console, directory = Console(), run_directory()
    with open_endpoints(directory) as endpoints:
        terms = RunParameters(endpoints.bootstrap, "sentences", "counts", "run01", directory)
        os.environ |= {
            **terms.environment(),
            "KSTORM_TASKS": str(tasks),
            "KSTORM_GUARANTEE": guarantee,
        }
        settings = Settings(
            topology=_REFERENCE,
            bootstrap_servers=endpoints.bootstrap,
            zookeeper=endpoints.zookeeper,
        )
        topology, broker = settings.load_topology(), Broker(endpoints.bootstrap)
        broker.create_source(terms.source)
        broker.create_sink(terms.sink)
        ensure_topics(topology, settings)
        processes = LocalProcesses(
            topology, _REFERENCE, endpoints.bootstrap, endpoints.zookeeper, workdir=directory
        )
        try:
            began = time.monotonic()
            processes.start()
            processes.wait_ready(_READY_SECS)
            ready = time.monotonic() - began
            starts = {worker.name: worker.process.cpu_seconds() for worker in processes.workers}
            _count_some(broker, terms)
            found = _idle(processes.workers, starts, seconds)
            restarts = measure_restarts(processes, terms)
        finally:
            processes.kill()
    shutil.rmtree(directory / "kafka", ignore_errors=True)
    console.print(f"all {len(found)} processes were ready after {ready:.1f} s")
    console.print(_table(found))
    console.print(restart_table(restarts))
    if report is not None:
        outcome = {
            "tasks": tasks,
            "guarantee": guarantee,
            "ready_s": ready,
            "processes": found,
            "restarts": restarts,
        }
        report.write_text(json.dumps(outcome, indent=1) + "\n")
    return 0


def _count_some(broker: Broker, terms: RunParameters) -> None:
    texts = corpus.texts(_SENTENCES, None)
    wanted = corpus.true_counts(texts).total()
    fill(terms.bootstrap, terms.source, texts)
    deadline = time.monotonic() + _READY_SECS
    while sum(broker.ends(terms.sink).values()) < wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(_REST_SECS)


def _idle(
    workers: list[Worker], starts: Mapping[str, float], seconds: float
) -> dict[str, dict[str, Any]]:
    """Return the figures of each process by name."""
    running = {worker.name: psutil.Process(worker.process.pid) for worker in workers}
    before = {name: _used(process) for name, process in running.items()}
    time.sleep(seconds)
    found = {}
    for name, process in running.items():
        used = [
            after - earlier for after, earlier in zip(_used(process), before[name], strict=True)
        ]
        found[name] = {
            "start_cpu_s": starts[name],
            "idle_cpu_percent": 100 * used[0] / seconds,
            "wake_ups_per_s": used[1] / seconds,
            "threads": process.num_threads(),
            "rss_mb": process.memory_info().rss / 2**20,
        }
    return found


def _used(process: psutil.Process) -> tuple[float, int]:
    """Return the CPU seconds of a process, and the number of times that its threads woke up."""
    times = process.cpu_times()
    wakes = 0
    for status in Path(f"/proc/{process.pid}/task").glob("*/status"):
        lines = status.read_text().splitlines()
        wakes += sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt"))
    return times.user + times.system, wakes


def _table(found: Mapping[str, Mapping[str, float]]) -> Table:
    table = Table("process", "CPU s to ready", "idle, % of a CPU", "wake-ups/s", "threads", "MB")
    sums = {key: sum(each[key] for each in found.values()) for key in next(iter(found.values()))}
    for name, figures in [*found.items(), ("all", sums)]:
        start, idle, wakes, threads, memory = figures.values()
        table.add_row(
            name, f"{start:.2f}", f"{idle:.2f}", f"{wakes:.0f}", str(threads), f"{memory:.0f}"
        )
    return table

"""`./run bench spout`: a spout process's cost to read and emit a small message.

It uses the ordinary services on an embedded Kafka and ZooKeeper. A `KafkaSpout` with one task reads
12 partitions of 60-byte messages and emits them to a bolt that acks. The figures are those of the
spout's process only, between 25 and 95 % of the messages.
"""

import json
import shutil
import time
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from kstorm.dev.endpoints import Endpoints, open_endpoints
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.paths import run_directory
from kstorm.errors import LocalError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import ensure_topics
from tests.bench.broker import Broker
from tests.bench.feed import BenchProducer
from tests.bench.figures import spread
from tests.bench.progress import Progress
from tests.bench.report import machine
from tests.bench.run_parameters import PARTITIONS
from tests.bench.spout_topology import ACKERS, MESSAGES, NAME, REFERENCE, TOPIC, build

MESSAGE_BYTES: Final = 60
GOAL_US: Final = 12.0
_FIRST_ID: Final = 10_000_000  # all ids have the same length
_TEXT: Final = "x" * (MESSAGE_BYTES - len(f"{_FIRST_ID} "))
_SOURCE: Final = "messages"
_LOOK_SECS: Final = 0.25
_SILENCE_SECS: Final = 120.0
_TITLES: Final = {
    "process": "the process",
    "librdkafka_threads": "  other threads, librdkafka's",
    "consume": "  librdkafka: consume",
    "take": "  scheme, message ids, what is in flight",
    "emit": "  emit",
    "rest": "  frames, news of trees, turning loops",
}

Figures = dict[str, float]
"""µs of CPU per message, by part. The parts of `process` add up to it."""


def run_spout(messages: int, rounds: int, report: Path | None) -> int:
    """Measure, print, and return 0. Raises `LocalError` for a process, `BrokerError` for Kafka."""
    console = Console()
    progress = Progress(console)
    directory = run_directory()
    progress.say(f"logs of this run: {directory}")
    found: dict[str, list[Figures]] = {"tracked": [], "untracked": []}
    try:
        progress.status("starting Kafka and ZooKeeper")
        with open_endpoints(directory) as endpoints:
            _fill(endpoints.bootstrap, messages, progress)
            for number in range(1, rounds + 1):
                for ackers, kind in ((1, "tracked"), (0, "untracked")):
                    name = f"bench-{kind}-{number}"
                    progress.status(f"{kind}, round {number} of {rounds}")
                    found[kind].append(
                        _measure(endpoints, directory / name, name, ackers, messages)
                    )
                    progress.say(
                        f"{kind}, round {number} of {rounds}: {found[kind][-1]['process']:.1f} µs a message"
                    )
    finally:
        progress.close()
        shutil.rmtree(directory / "kafka", ignore_errors=True)  # deletes the data but no logs
    _print(found, console)
    if report is not None:
        report.write_text(json.dumps(_to_json(found, messages), indent=1) + "\n", encoding="utf-8")
    return 0


def _fill(bootstrap: str, messages: int, progress: Progress) -> None:
    progress.status(f"producing {messages:,} messages")
    Broker(bootstrap).create_source(_SOURCE)
    producer = BenchProducer(bootstrap, _SOURCE)
    for number in range(messages):
        producer.send(_FIRST_ID + number, _TEXT)
    producer.flush()


def _measure(
    endpoints: Endpoints, directory: Path, name: str, ackers: int, messages: int
) -> Figures:
    topology = build(name, _SOURCE, ackers, messages)
    ensure_topics(
        topology,
        Settings(
            topology=REFERENCE, bootstrap_servers=endpoints.bootstrap, zookeeper=endpoints.zookeeper
        ),
    )
    directory.mkdir()
    processes = LocalProcesses(
        topology,
        REFERENCE,
        endpoints.bootstrap,
        endpoints.zookeeper,
        workdir=directory,
        environment={NAME: name, TOPIC: _SOURCE, ACKERS: str(ackers), MESSAGES: str(messages)},
    )
    try:
        processes.start()
        return _figures(_await_figures(processes))
    finally:
        processes.kill()


def _await_figures(processes: LocalProcesses) -> dict[str, float]:
    """Poll until the spout has its figures. Raises `LocalError` after two minutes without emits."""
    (spout,) = processes.of("spout")
    emitted, changed = 0, time.monotonic()
    while time.monotonic() - changed < _SILENCE_SECS:
        status = spout.status() or {"emitted": 0, "source": {}}
        if status["source"].get("messages"):
            found: dict[str, float] = status["source"]
            return found
        if status["emitted"] > emitted:
            emitted, changed = status["emitted"], time.monotonic()
        time.sleep(_LOOK_SECS)
    raise LocalError(
        f"the spout emitted nothing for {_SILENCE_SECS:g} s: see its log {spout.process.log_path}"
    )


def _figures(spent: dict[str, float]) -> Figures:
    each = {name: 1e6 * seconds / spent["messages"] for name, seconds in spent.items()}
    return {
        "process": each["process"],
        "librdkafka_threads": each["process"] - each["main_thread"],
        "consume": each["consume"],
        "take": each["next_tuple"] - each["consume"] - each["emit"],
        "emit": each["emit"],
        "rest": each["main_thread"] - each["next_tuple"],
    }


def _summary(runs: list[Figures]) -> dict[str, dict[str, float]]:
    return {
        part: found for part in _TITLES if (found := spread(run[part] for run in runs)) is not None
    }


def _print(found: dict[str, list[Figures]], console: Console) -> None:
    table = Table(
        title=f"µs of CPU a message of {MESSAGE_BYTES} bytes from {PARTITIONS} partitions (goal: {GOAL_US:g})",
        title_justify="left",
        box=None,
    )
    table.add_column("", no_wrap=True)
    for title in ("min", "median", "max", "share"):
        table.add_column(title, justify="right")
    for kind, runs in found.items():
        summary = _summary(runs)
        table.add_row(f"[bold]{kind}[/bold]")
        for part, title in _TITLES.items():
            of_part = summary[part]
            share = of_part["median"] / summary["process"]["median"]
            cells = [f"{of_part[key]:.2f}" for key in ("min", "median", "max")]
            table.add_row(f"  {title}", *cells, f"{share:.0%}", end_section=part == "rest")
    console.print(table, highlight=False)


def _to_json(found: dict[str, list[Figures]], messages: int) -> dict[str, Any]:
    return {
        "machine": machine(),
        "messages": messages,
        "message_bytes": MESSAGE_BYTES,
        "partitions": PARTITIONS,
        "goal_us": GOAL_US,
        "runs": found,
        "summary": {kind: _summary(runs) for kind, runs in found.items()},
    }

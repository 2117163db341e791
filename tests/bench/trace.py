"""`./run bench trace`: how long `kstorm why` and `kstorm trace` take during and after full load.

The ordinary services on an embedded Kafka and ZooKeeper run a word count whose bolt forgets one
tuple in 100,000. The commands are started as a user would, so the times are those of whole
processes.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
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
from tests.bench.corpus import texts
from tests.bench.feed import BenchProducer
from tests.bench.forgetful_topology import NAME, REFERENCE, SINK, SOURCE, build
from tests.bench.progress import Progress
from tests.bench.report import machine

_TOPOLOGY, _SOURCE, _SINK = "forgetful", "sentences", "word-counts"
_AHEAD: Final = 100_000
"""Sentences that the topology lags behind, enough that it never waits for input."""
_LOOK_SECS: Final = 1.0
_TIMES: Final = 3
_PATIENCE_SECS: Final = 120.0
_TEXTS: Final = 100_000


def run_trace(minutes: float, report: Path | None) -> int:
    """Measure, print, and return 0. Raises `LocalError` if the topology or a command fails."""
    console = Console()
    progress = Progress(console)
    directory = run_directory()
    progress.say(f"logs of this run: {directory}")
    try:
        progress.status("starting Kafka and ZooKeeper")
        with open_endpoints(directory) as endpoints:
            found = _measure(endpoints, directory, minutes * 60, progress)
    finally:
        progress.close()
        shutil.rmtree(directory / "kafka", ignore_errors=True)  # deletes the data but no logs
    _print(found, console)
    if report is not None:
        report.write_text(
            json.dumps(found | {"machine": machine()}, indent=1) + "\n", encoding="utf-8"
        )
    return 0


def _measure(
    endpoints: Endpoints, directory: Path, seconds: float, progress: Progress
) -> dict[str, Any]:
    for topic in (_SOURCE, _SINK):
        Broker(endpoints.bootstrap).create_source(topic)
    topology = build(_TOPOLOGY, _SOURCE, _SINK)
    settings = Settings(
        topology=REFERENCE, bootstrap_servers=endpoints.bootstrap, zookeeper=endpoints.zookeeper
    )
    ensure_topics(topology, settings)
    told = {NAME: _TOPOLOGY, SOURCE: _SOURCE, SINK: _SINK}
    processes = LocalProcesses(
        topology,
        REFERENCE,
        endpoints.bootstrap,
        endpoints.zookeeper,
        workdir=directory,
        environment=told,
    )
    try:
        processes.start()
        processes.wait_ready(_PATIENCE_SECS)
        with Feed(endpoints.bootstrap, processes) as feed:
            began = time.monotonic()
            while (gone := time.monotonic() - began) < seconds:
                feed.check()
                progress.status(
                    f"full load: {gone:.0f} of {seconds:.0f} s, {feed.emitted:,} sentences"
                )
                time.sleep(_LOOK_SECS)
            rate = feed.emitted / gone
            progress.status("asking amid the load")
            amid = _ask(endpoints, told)
        progress.status("asking after the load")
        after = _ask(endpoints, told)
    finally:
        processes.kill()
    size = sum(file.stat().st_size for file in (directory / "kafka").rglob("*.log"))
    return {"seconds": seconds, "rate": rate, "gigabytes": size / 1e9, "amid": amid, "after": after}


class Feed(threading.Thread):
    """Keeps the topology's input a little ahead, until the end of the block."""

    def __init__(self, bootstrap: str, processes: LocalProcesses) -> None:
        super().__init__(daemon=True)
        self._producer, self._processes = BenchProducer(bootstrap, _SOURCE), processes
        self._over = threading.Event()
        self.emitted = 0

    def __enter__(self) -> "Feed":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()

    def check(self) -> None:
        """Raise `LocalError` if the thread has ended too early."""
        if not self.is_alive():
            raise LocalError("the sentences ran out: Kafka did not take them")

    def run(self) -> None:
        found = texts(_TEXTS)
        sent = 0
        while not self._over.wait(0.05):
            status = self._processes.of("sentences")[0].status()
            self.emitted = self.emitted if status is None else int(status["emitted"])
            while sent < self.emitted + _AHEAD and not self._over.is_set():
                self._producer.put(found[sent % len(found)])
                sent += 1
        self._producer.flush()


def _ask(endpoints: Endpoints, told: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    environment = {
        **os.environ,
        **told,
        "KSTORM_TOPOLOGY": REFERENCE,
        "KSTORM_BOOTSTRAP_SERVERS": endpoints.bootstrap,
        "KSTORM_ZOOKEEPER": endpoints.zookeeper,
    }
    commands = {
        "why, the oldest of all partitions": ["why", "--oldest"],
        "trace, a message of the beginning": ["trace", f"{_SOURCE}/3/200"],
        "why, a message of the beginning": ["why", f"{_SOURCE}/3/200"],
    }
    return {name: _timed(command, environment) for name, command in commands.items()}


def _timed(command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the seconds of each run, and the output of the last."""
    took, answer = [], ""
    for _ in range(_TIMES):
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "kstorm.cli", *command],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        took.append(time.monotonic() - began)
        answer = done.stdout
        if done.returncode:
            raise LocalError(
                f"kstorm {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}"
            )
    return {"seconds": took, "answer": answer.splitlines()}


def _print(found: Mapping[str, Any], console: Console) -> None:
    table = Table(
        title=f"after {found['seconds']:.0f} s at {found['rate']:,.0f} sentences/s, {found['gigabytes']:.1f} GB of logs"
    )
    table.add_column("kstorm")
    for name in ("amid the load, s", "after it, s"):
        table.add_column(name, justify="right")
    for name, asked in found["amid"].items():
        times = (
            " / ".join(f"{each:.1f}" for each in sorted(one["seconds"]))
            for one in (asked, found["after"][name])
        )
        table.add_row(name, *times)
    console.print(table)
    for line in next(iter(found["amid"].values()))["answer"]:
        console.print(line, markup=False, highlight=False)

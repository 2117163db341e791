"""Runs the word count as one of several peers, on the given Kafka, until SIGTERM.

`PEER_BOOTSTRAP`, `PEER_IN`, `PEER_OUT`, `PEER_RUN` (a name for this run) and `PEER_DIR` (scratch)
are its parameters. kstorm needs ZooKeeper, so the peer starts one, whose usage counts as kstorm's.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kstorm.dev.endpoints import open_endpoints
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.topic_cleanup import cleaned_up
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import ensure_topics
from tests.bench.run_parameters import from_environment
from tests.bench.workers import WORKERS

TOPOLOGY: Final = "KSTORM_BENCH_TOPOLOGY"
"""The variable that names a topology other than the ordinary word count."""
_REFERENCE: Final = "tests.bench.wordcount:topology"
_READY_SECS: Final = 120.0


def run_peer() -> int:
    """Run until `KeyboardInterrupt`, which SIGTERM is turned into.

    Raises `ConfigError` if a variable is missing.
    """
    terms, reference = from_environment(), os.environ.get(TOPOLOGY, _REFERENCE)
    with open_endpoints(terms.directory, terms.bootstrap) as endpoints:
        settings = Settings(
            topology=reference, bootstrap_servers=endpoints.bootstrap, zookeeper=endpoints.zookeeper
        )
        topology = settings.load_topology()
        with cleaned_up(settings, topology, [], f"/kstorm/{topology.name}"):
            ensure_topics(topology, settings)
            processes = LocalProcesses(
                topology,
                reference,
                endpoints.bootstrap,
                endpoints.zookeeper,
                workdir=terms.directory,
            )
            begun: dict[str, float] = {}
            try:
                processes.start()
                processes.wait_ready(_READY_SECS)
                begun = {worker.name: worker.process.cpu_seconds() for worker in processes.workers}
                while True:
                    time.sleep(1)
            finally:
                _tell(processes, begun, terms.directory / WORKERS)
                processes.kill()


def _tell(processes: LocalProcesses, begun: Mapping[str, float], path: Path) -> None:
    """Write the figures of the processes, or none if `begun` is empty.

    `begun` are the CPU seconds that each process had used when all were ready.
    """
    statuses = processes.statuses() if begun else {}
    found = [
        {
            "component": worker.component,
            "cpu_seconds": worker.process.cpu_seconds() - begun[worker.name],
            **(statuses[worker.name] or {}),
        }
        for worker in processes.workers
        if worker.name in begun
    ]
    path.write_text(json.dumps(found))

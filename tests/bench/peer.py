"""Runs the word count as one of several peers: on the Kafka it is given, until SIGTERM.

`PEER_BOOTSTRAP`, `PEER_IN`, `PEER_OUT`, `PEER_RUN` (a name for this run) and `PEER_DIR` (scratch) say where. ZooKeeper is
part of what kstorm needs, so one is started, and counted as ours.
"""

import time
from typing import Final

from kstorm.local.cluster import LocalProcesses
from kstorm.local.endpoints import open_endpoints
from kstorm.local.topics import cleaned_up
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.service.settings import Settings
from tests.bench.terms import from_environment

REFERENCE: Final = "tests.bench.wordcount:topology"
_READY_SECS: Final = 120.0


def run_peer() -> int:
    """Run until `KeyboardInterrupt`, which SIGTERM is turned into; raises `ConfigError` if a variable is missing."""
    terms = from_environment()
    with open_endpoints(terms.directory, terms.bootstrap) as endpoints:
        settings = Settings(topology=REFERENCE, bootstrap_servers=endpoints.bootstrap, zookeeper=endpoints.zookeeper)
        topology = settings.load_topology()
        with cleaned_up(settings, topology, [], f"/kstorm/{topology.name}"):
            ensure_topics(topology, settings)
            processes = LocalProcesses(
                topology, REFERENCE, endpoints.bootstrap, endpoints.zookeeper, workdir=terms.directory
            )
            try:
                processes.start()
                processes.wait_ready(_READY_SECS)
                while True:
                    time.sleep(1)
            finally:
                processes.kill()

"""A running topology, and the web UI as a separate process."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.single_partition_topic import bounds
from tests.integration import topologies
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine, make_topics

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """Its name, the web UI's URL, and the engine for tests to act on."""

    name: str
    url: str
    engine: Engine

    @property
    def page(self) -> str:
        """URL of the topology's page."""
        return f"{self.url}/t/{self.name}"

    def end_of_source(self) -> int:
        """Return the end offset of the source topic's first partition."""
        settings = Settings(topology="", bootstrap_servers=self.engine.bootstrap)
        there = bounds(settings, self.engine.source)
        assert there is not None
        return there[1]


@contextmanager
def running_words(
    name: str,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    workdir: Path,
    *,
    per_second: int = 10,
) -> Iterator[Running]:
    """Run the word count under a unique name, with a steady stream of messages, and the web UI."""
    hidden = {"KSTORM_UI_SHOW_VALUES": "false", "KSTORM_UI_LOGS": "true"}
    with running_beside_page("wordcount", name, kafka, zookeeper, workdir, hidden) as running:
        ended = threading.Event()
        feeder = threading.Thread(
            target=_feed, args=(running.engine, per_second // 5, ended), daemon=True
        )
        feeder.start()
        try:
            yield running
        finally:
            ended.set()
            feeder.join(70)


@contextmanager
def running_beside_page(
    reference: str,
    name: str,
    kafka: EmbeddedKafka,
    zookeeper: EmbeddedZooKeeper,
    workdir: Path,
    settings: Mapping[str, str] | None = None,
) -> Iterator[Running]:
    """Run `topologies:<reference>` without messages, and the web UI with these settings."""
    _, source, sink = topologies.names(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSTORM_TEST_PREFIX", name)
        patch.setenv(
            "PYTHONPATH", os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
        )
        make_topics(kafka.bootstrap, {source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
        # A killed process stays dead for some seconds, so that the web UI polls it.
        processes = LocalProcesses(
            getattr(topologies, reference)(),
            f"tests.integration.topologies:{reference}",
            kafka.bootstrap,
            zookeeper.connect,
            workdir,
            restart_delay=5.0,
        )
        command: list[str | Path] = [
            sys.executable,
            "-m",
            "kstorm_ui",
            "--runs",
            workdir,
            "--port",
            "0",
        ]
        page = ManagedProcess("ui", command, workdir=workdir, environment=settings)
        engine = Engine(processes, kafka.bootstrap, source, sink)
        try:
            processes.start()
            page.start()
            processes.wait_ready(240)
            yield Running(name, _url_of(page), engine)
        finally:
            page.stop()
            processes.kill()


def _feed(engine: Engine, messages: int, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        engine.produce(f"the cow jumped over the moon again {one}" for one in range(messages))


def _url_of(page: ManagedProcess) -> str:
    deadline = time.monotonic() + 30
    while not (found := re.search(r"the web UI is at (http://\S+)/", page.log_tail())):
        assert page.alive, page.log_tail()
        assert time.monotonic() < deadline, "the web UI does not print its URL"
        time.sleep(0.05)
    return found[1]

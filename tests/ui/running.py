"""A topology that runs, and the page as a process beside it."""

import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from kstorm.local.cluster import LocalProcesses
from kstorm.local.processes import ManagedProcess
from kstorm.local.servers import EmbeddedKafka, EmbeddedZooKeeper
from kstorm.runtime.kafka.one_partition import bounds
from kstorm.runtime.service.settings import Settings
from tests.integration import topologies
from tests.integration.engine import SINK_PARTITIONS, SOURCE_PARTITIONS, Engine, make_topics

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Running:
    """Its name, where the page is, and what a test may do to it."""

    name: str
    url: str
    engine: Engine

    @property
    def page(self) -> str:
        """The topology's page."""
        return f"{self.url}/t/{self.name}"

    def end_of_source(self) -> int:
        """Where the source topic's first partition ends."""
        settings = Settings(topology="", bootstrap_servers=self.engine.bootstrap)
        there = bounds(settings, self.engine.source)
        assert there is not None
        return there[1]


@contextmanager
def running_words(name: str, kafka: EmbeddedKafka, zookeeper: EmbeddedZooKeeper, workdir: Path) -> Iterator[Running]:
    """The word count under a name that nothing else has, with a hundred messages a second, and the page beside it."""
    _, source, sink = topologies.names(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KSTORM_TEST_PREFIX", name)
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")])))
        make_topics(kafka.bootstrap, {source: SOURCE_PARTITIONS, sink: SINK_PARTITIONS})
        reference = "tests.integration.topologies:wordcount"
        # Dead for some seconds, so that the page has to see it.
        processes = LocalProcesses(
            topologies.wordcount(), reference, kafka.bootstrap, zookeeper.connect, workdir, restart_delay=5.0
        )
        command: list[str | Path] = [sys.executable, "-m", "kstorm_ui", "--runs", workdir, "--port", "0"]
        page = ManagedProcess("ui", command, workdir=workdir)
        engine = Engine(processes, kafka.bootstrap, source, sink)
        ended = threading.Event()
        feeder = threading.Thread(target=_feed, args=(engine, ended), daemon=True)
        try:
            processes.start()
            page.start()
            processes.wait_ready(240)
            feeder.start()
            yield Running(name, _url_of(page), engine)
        finally:
            ended.set()
            page.stop()
            processes.kill()
            if feeder.ident:
                feeder.join(70)


def _feed(engine: Engine, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        engine.produce(f"the cow jumped over the moon again {number}" for number in range(20))


def _url_of(page: ManagedProcess) -> str:
    """Where it says that it is."""
    deadline = time.monotonic() + 30
    while not (found := re.search(r"the page is at (http://\S+)/", page.log_tail())):
        assert page.alive, page.log_tail()
        assert time.monotonic() < deadline, "the page does not say where it is"
        time.sleep(0.05)
    return found[1]

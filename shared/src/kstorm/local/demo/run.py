"""The demo from its beginning to its end.

servers → topics → processes → messages, with an acker and a counting process killed halfway → audit of the sink topic →
Spark: the tables, and what became of every message → audit of the gold table → summary. Whatever happens, what was started is
stopped.
"""

import json
import logging
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from kstorm.kafka import KafkaSpout
from kstorm.local.cluster import LocalProcesses
from kstorm.local.demo import corpus
from kstorm.local.demo.audit import DemoFindings, Produced, audit, read_topic
from kstorm.local.demo.feed import Feed
from kstorm.local.demo.held import trace_of_held
from kstorm.local.demo.load import LoadRun, UsageLog, offsets_stored
from kstorm.local.demo.pipeline import Pipeline
from kstorm.local.demo.report import DemoOutcome, Load, print_summary
from kstorm.local.demo.topics import SOURCE_PARTITIONS, create_demo_topics
from kstorm.local.endpoints import Endpoints, open_endpoints, zookeeper_client
from kstorm.local.page import page
from kstorm.local.paths import remove_bulk, run_directory
from kstorm.local.topics import cleaned_up, topic_names
from kstorm.local.view import LiveView
from kstorm.runtime.kafka.topics import ensure_topics
from kstorm.runtime.kafka.transactions import check_transactions
from kstorm.runtime.service.settings import Settings
from kstorm.topology import Topology
from kstorm.topology.config import EXACTLY_ONCE
from kstorm.topology.topology import ACKER_COMPONENT

_TOPOLOGY: Final = "examples.wordcount.topology:demo"
_VICTIMS: Final = (ACKER_COMPONENT, "count")
_READY_SECS: Final = 240.0
_TIMEOUT_SECS: Final = {True: 10, False: 30}
"""Message timeout with and without killing. What a killed process had half done is emitted again once its trees have
timed out; after Storm's 30 seconds the demo would mostly wait for that."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What can be asked of the demo."""

    messages: int
    """How many sentences to produce."""
    guarantee: str = EXACTLY_ONCE
    """The topology's `topology_processing_guarantee`."""
    breaking: bool = True
    """Whether to kill an acker and a counting process halfway."""
    report: Path | None = None
    """A file for the outcome as JSON."""
    bootstrap: str | None = None
    """Kafka of the user's own; None: an embedded one."""
    zookeeper: str | None = None
    """ZooKeeper of the user's own; None: an embedded one."""
    workdir: Path | None = None
    """Folder that gets a folder for this run; None: `.kstorm/runs`."""
    page: bool = True
    """Whether to show it in a browser too."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """What the parts of a run have in common."""

    topology: Topology
    settings: Settings
    source: str
    """The topic that the sentences go to."""
    sink: str
    """The topic that the counts come from."""

    @property
    def offsets_path(self) -> str:
        """Where ZooKeeper has the spout's offsets."""
        spout = self.topology.spouts[0].component
        assert isinstance(spout, KafkaSpout)
        return spout.spout_config.zk_path


class Demo:
    """One run. `run` returns the exit code: 0, or 1 if anything is lost or wrong."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options, self._console = options, console
        self._started = time.monotonic()
        self._usage = UsageLog()
        self._directory: Path

    def run(self) -> int:
        """Run it; raises `KstormError` for what the user can mend, and for what broke."""
        self._directory = run_directory(self._options.workdir)
        logging.basicConfig(
            filename=self._directory / "demo.log",
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
        )
        self._say(f"logs and tables of this run: {self._directory}")
        with self._servers() as endpoints, self._stage(endpoints) as stage:
            with page(self._directory, wanted=self._options.page) as url:
                if url:
                    self._say(f"in a browser, until the processes stop: {url}")
                load, produced = self._load(stage)
            with self._spark(stage) as pipeline:
                findings = self._audit(stage, produced)
                held = trace_of_held(stage.topology, stage.settings, load.deaths)
                tables, audited = pipeline.follow(
                    lambda line: self._say(f"Spark: {line}"), self._usage.sample
                )
            self._say(f"audit: {audited}")
        outcome = DemoOutcome(
            self._options.guarantee,
            load,
            findings,
            tables,
            audited,
            self._usage.result(),
            self._directory,
        )
        return self._finish(outcome, held)

    @contextmanager
    def _servers(self) -> Iterator[Endpoints]:
        given = [server for server in (self._options.bootstrap, self._options.zookeeper) if server]
        self._say(f"your servers: {', '.join(given)}" if given else "starting Kafka and ZooKeeper")
        with open_endpoints(
            self._directory, self._options.bootstrap, self._options.zookeeper
        ) as endpoints:
            self._usage.processes += endpoints.embedded
            yield endpoints

    @contextmanager
    def _stage(self, endpoints: Endpoints) -> Iterator[_Stage]:
        """The topology and its topics; on the user's servers under names that meet nobody else's, until the end."""
        shared = bool(self._options.bootstrap or self._options.zookeeper)
        name = f"kstorm-demo-{uuid.uuid4().hex[:8]}" if shared else "wordcount"
        prefix = f"{name}-" if shared else ""
        os.environ |= {  # the processes inherit it
            "WORDCOUNT_NAME": name,
            "WORDCOUNT_GUARANTEE": self._options.guarantee,
            "WORDCOUNT_TOPIC_PREFIX": prefix,
            "WORDCOUNT_TIMEOUT_SECS": str(_TIMEOUT_SECS[self._options.breaking]),
        }
        settings = Settings(
            topology=_TOPOLOGY, bootstrap_servers=endpoints.bootstrap, zookeeper=endpoints.zookeeper
        )
        stage = _Stage(
            settings.load_topology(), settings, f"{prefix}sentences", f"{prefix}word-counts"
        )
        with ExitStack() as stack:
            if shared:
                _check_answer(settings)
                topics = [stage.source, stage.sink]
                stack.enter_context(
                    cleaned_up(settings, stage.topology, topics, stage.offsets_path)
                )
                stack.callback(self._say, "removing what this run has made on your servers")
            ensure_topics(stage.topology, settings)
            check_transactions(stage.topology, settings)
            create_demo_topics(settings, stage.source, stage.sink)
            self._say(
                f"topics: {stage.source} with {SOURCE_PARTITIONS} partitions, {stage.sink}, and the topology's own"
            )
            yield stage

    def _load(self, stage: _Stage) -> tuple[Load, list[Produced]]:
        """Messages through the topology, until all are done."""
        texts = corpus.messages(self._options.messages)
        settings = stage.settings
        processes = LocalProcesses(
            stage.topology,
            _TOPOLOGY,
            settings.bootstrap_servers,
            settings.zookeeper,
            workdir=self._directory,
        )
        try:
            self._start(processes)
            run = LoadRun(
                processes,
                lambda allowed: Feed(
                    settings.client_config, stage.source, SOURCE_PARTITIONS, texts, allowed
                ),
                len(texts),
                _VICTIMS if self._options.breaking else (),
                self._usage,
            )
            self._say(f"producing {len(texts):,} sentences of CPython's documentation")
            with (
                zookeeper_client(settings.zookeeper) as client,
                LiveView(self._console, len(texts)) as view,
            ):
                load = run.run(
                    view,
                    partial(self._say, style="bold yellow"),
                    lambda: offsets_stored(
                        client, stage.offsets_path, stage.source, run.feed.ends()
                    ),
                )
            self._say(f"all sentences are done after {load.seconds:.0f} s; stopping the processes")
            processes.stop()
        except BaseException:
            processes.kill()
            raise
        return load, run.feed.produced()

    def _start(self, processes: LocalProcesses) -> None:
        processes.start()
        self._usage.processes += [worker.process for worker in processes.workers]
        names = ", ".join(worker.name for worker in processes.workers)
        self._say(f"starting {len(processes.workers)} processes: {names}")
        with self._console.status("waiting until all are ready") as status:
            processes.wait_ready(
                _READY_SECS, lambda names: status.update(f"waiting for {', '.join(names)}")
            )

    def _audit(self, stage: _Stage, produced: list[Produced]) -> DemoFindings:
        self._say("reading the sink topic and comparing it with a count of the input")
        findings = audit(produced, read_topic(stage.settings.client_config, stage.sink))
        self._say(f"{findings.records:,} records read; lost: {len(findings.lost)}")
        return findings

    def _spark(self, stage: _Stage) -> Pipeline:
        """Spark takes a while to start, during which the sink topic can be audited."""
        self._say("starting Spark on the sink topic")
        at = stage.settings
        pipeline = Pipeline(
            self._directory, at.bootstrap_servers, at.zookeeper, stage.sink, stage.topology.name
        )
        self._usage.processes.append(pipeline.process)
        return pipeline

    def _finish(self, outcome: DemoOutcome, held: Sequence[str]) -> int:
        print_summary(outcome, self._console)
        for line in held:
            self._console.print(Text(line), soft_wrap=True)
        if self._options.report is not None:
            _write_report(self._options.report, outcome)
        faults = outcome.faults()
        if faults:
            self._console.print(
                f"NOT GOOD: {'; '.join(faults)}.", style="bold red", markup=False, highlight=False
            )
            return 1
        remove_bulk(self._directory)
        minutes, seconds = divmod(round(time.monotonic() - self._started), 60)
        self._console.print(
            f"lost: 0. Every word of every sentence is in the table, in {minutes} min {seconds} s.",
            style="bold green",
        )
        return 0

    def _say(self, text: str, style: str = "") -> None:
        line = Text(f"{time.monotonic() - self._started:6.1f} s  ", style="dim")
        self._console.print(line + Text(text, style=style or "not dim"), soft_wrap=True)


def _check_answer(settings: Settings) -> None:
    """Raise `BrokerError` unless the user's servers answer, before anything is done that would have to be undone."""
    topic_names(settings)
    with zookeeper_client(settings.zookeeper):
        pass


def _write_report(path: Path, outcome: DemoOutcome) -> None:
    path.write_text(
        json.dumps(outcome.to_json(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )

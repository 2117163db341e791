"""Run the demo from beginning to end.

The stages are: jars; servers; topics and processes; sentences, while an acker and a counting
process are killed; the audit of the sink topic, and Spark with the tables and the audit of every
message; the summary. Kafka, ZooKeeper and the processes start in parallel, and Spark starts while
sentences flow. In every case the demo stops everything that it started.
"""

import json
import logging
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from kstorm.dev import class_archive
from kstorm.dev.demo import corpus
from kstorm.dev.demo.audit import Produced, audit, read_topic
from kstorm.dev.demo.demo_servers import DemoServers
from kstorm.dev.demo.feed import Feed
from kstorm.dev.demo.load import LoadRun, UsageLog, offsets_stored
from kstorm.dev.demo.open_tree import trace_of_open_tree
from kstorm.dev.demo.options import WORDCOUNT, DemoOptions
from kstorm.dev.demo.pipeline_run import DemoPipeline
from kstorm.dev.demo.report import DemoOutcome, LoadResult, print_summary
from kstorm.dev.demo.view import SentencesView
from kstorm.dev.endpoints import zookeeper_client
from kstorm.dev.local_processes import LocalProcesses
from kstorm.dev.paths import remove_bulk, run_directory
from kstorm.dev.prepare import prepare
from kstorm.dev.stage_progress import StageProgress
from kstorm.dev.stage_times import by_run, set_up_times, started_at
from kstorm.dev.topic_cleanup import cleaned_up, topic_names
from kstorm.dev.web_ui import check_settings, web_ui
from kstorm.kafka import KafkaSpout
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic, ensure_topics
from kstorm.runtime.kafka.transactional_producer import check_transactions
from kstorm.topology import Topology
from kstorm.topology.topology import ACKER_COMPONENT

_TOPOLOGY: Final = f"{WORDCOUNT}.topology:demo"
_VICTIMS: Final = (ACKER_COMPONENT, "count")
_READY_SECS: Final = 240.0
_EAGER: Final = {"KSTORM_KAFKA_PROPERTIES": json.dumps({"reconnect.backoff.max.ms": 200})}
"""Make the processes connect to an embedded Kafka as soon as it is ready. By default a client waits
up to two seconds between attempts."""
_TIMEOUT_SECS: Final = {True: 10, False: 30}
"""The message timeouts with and without kills. The unfinished messages of a killed process are
emitted again after the timeout of their trees. With Storm's 30 seconds, the demo would mostly wait
for that."""


@dataclass(frozen=True, slots=True)
class _Stage:
    """The topology of a run, its settings and its topics."""

    topology: Topology
    settings: Settings
    source: str
    """The topic of the sentences."""
    sink: str
    """The topic of the counts."""

    @property
    def offsets_path(self) -> str:
        """The path of the spout's offsets in ZooKeeper."""
        spout = self.topology.spouts[0].component
        assert isinstance(spout, KafkaSpout)
        return spout.spout_config.zk_path


class Demo:
    """One run. `run` returns the exit code: 0, or 1 if anything is lost or wrong."""

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options, self._console = options, console
        self._started_at = started_at()
        self._took: dict[str, float] = {}
        self._usage = UsageLog()
        self._next_sample = 0.0
        self._directory: Path

    def run(self) -> int:
        """Run the demo. Raises `KstormError` for a failure, including those that the user can fix."""
        check_settings(page=self._options.page)
        prepare()
        self._directory = run_directory(self._options.workdir, self._say)
        # a full disk is reported as one line, without the logger's stack trace
        logging.raiseExceptions = False
        logging.basicConfig(
            filename=self._directory / "demo.log",
            level=logging.INFO,
            format="%(asctime)s %(levelname)s %(message)s",
        )
        self._say(f"logs and tables of this run: {self._directory}")
        self._note_set_up()
        options = self._options
        with ExitStack() as stack:
            servers = stack.enter_context(
                DemoServers(self._directory, options.bootstrap, options.zookeeper)
            )
            stage = self._stage(servers)
            code = self._run(servers, stage)
        if code == 0:
            remove_bulk(self._directory)
            if by_run():  # a test must leave no process behind
                class_archive.make_in_background()
        return code

    def _run(self, servers: DemoServers, stage: _Stage) -> int:
        """Run the stages after the start of the servers."""
        with ExitStack() as stack:
            processes = stack.enter_context(self._processes(stage))
            if not self._shared:
                processes.start()
            self._wait_for_servers(servers, stage, stack)
            if self._shared:
                processes.start()
            self._wait_for_processes(servers, processes)
            if url := stack.enter_context(web_ui(self._directory, wanted=self._options.page)):
                self._say(f"the web UI, until this run ends: {url}")
            pipeline = stack.enter_context(self._spark(stage))
            load, produced = self._load(servers, stage, processes, pipeline)
            outcome = self._make_tables(stage, load, produced, pipeline)
            return self._finish(outcome, stage)

    def _stage(self, servers: DemoServers) -> _Stage:
        """Return the topology. On the user's servers, its names are unique to this run."""
        name = f"kstorm-demo-{uuid.uuid4().hex[:8]}" if self._shared else "wordcount"
        prefix = f"{name}-" if self._shared else ""
        os.environ |= {  # the processes inherit it
            "WORDCOUNT_NAME": name,
            "WORDCOUNT_GUARANTEE": self._options.guarantee,
            "WORDCOUNT_TOPIC_PREFIX": prefix,
            "WORDCOUNT_TIMEOUT_SECS": str(_TIMEOUT_SECS[self._options.killing]),
        }
        settings = Settings(
            topology=_TOPOLOGY, bootstrap_servers=servers.bootstrap, zookeeper=servers.zookeeper
        )
        source, sink = f"{prefix}sentences", f"{prefix}word-counts"
        return _Stage(settings.load_topology(), settings, source, sink)

    @property
    def _shared(self) -> bool:
        """True if a server is the user's own."""
        return bool(self._options.bootstrap or self._options.zookeeper)

    @contextmanager
    def _processes(self, stage: _Stage) -> Iterator[LocalProcesses]:
        """The processes of the topology. With an embedded Kafka, they start before Kafka is ready
        and wait for it."""
        settings = stage.settings
        processes = LocalProcesses(
            stage.topology,
            _TOPOLOGY,
            settings.bootstrap_servers,
            settings.zookeeper,
            workdir=self._directory,
            environment={} if self._shared else _EAGER,
        )
        try:
            yield processes
        finally:
            processes.kill()

    def _wait_for_servers(self, servers: DemoServers, stage: _Stage, stack: ExitStack) -> None:
        """Wait until the servers are ready, and create the topics. At the end of the stack, topics
        are removed from the user's servers."""
        with self._progress("servers") as progress:
            servers.wait(lambda share: progress.show(0.9 * share, "Kafka and ZooKeeper"))
            self._usage.processes += servers.processes
            settings = stage.settings
            if self._shared:
                _check_answer(settings)
                topics = [stage.source, stage.sink]
                stack.enter_context(
                    cleaned_up(settings, stage.topology, topics, stage.offsets_path)
                )
                stack.callback(self._say, "removing the topics of this run from your servers")
            progress.show(0.9, "topics")
            create_demo_topics(settings, stage.source, stage.sink)
            ensure_topics(stage.topology, settings)
            check_transactions(stage.topology, settings)
            progress.end("Kafka and ZooKeeper" if not self._shared else "your servers")

    def _wait_for_processes(self, servers: DemoServers, processes: LocalProcesses) -> None:
        with self._progress("processes") as progress:
            total = len(processes.workers)

            def on_wait(names: list[str]) -> None:
                servers.check()
                progress.show(1 - len(names) / total, f"waiting for {', '.join(names)}")

            processes.wait_ready(_READY_SECS, on_wait)
            self._usage.processes += [worker.process for worker in processes.workers]
            progress.end(", ".join(worker.name for worker in processes.workers))

    def _spark(self, stage: _Stage) -> DemoPipeline:
        at = stage.settings
        pipeline = DemoPipeline(
            self._directory, at.bootstrap_servers, at.zookeeper, stage.sink, stage.topology.name
        )
        self._usage.processes.append(pipeline.process)
        return pipeline

    def _load(
        self, servers: DemoServers, stage: _Stage, processes: LocalProcesses, pipeline: DemoPipeline
    ) -> tuple[LoadResult, list[Produced]]:
        """Send the sentences through the topology and wait until all are processed."""
        texts = corpus.messages(self._options.sentences)
        settings = stage.settings
        run = LoadRun(
            processes,
            lambda allowed: Feed(
                settings.client_config, stage.source, SOURCE_PARTITIONS, texts, allowed
            ),
            len(texts),
            _VICTIMS if self._options.killing else (),
            self._usage,
        )

        def check() -> None:
            servers.check()
            pipeline.check()

        with (
            zookeeper_client(settings.zookeeper) as client,
            SentencesView(self._console, len(texts)) as view,
        ):
            load = run.run(
                view,
                check,
                lambda: offsets_stored(client, stage.offsets_path, stage.source, run.feed.ends()),
            )
        processes.stop()
        self._mark("sentences")
        return load, run.feed.produced()

    def _make_tables(
        self, stage: _Stage, load: LoadResult, produced: list[Produced], pipeline: DemoPipeline
    ) -> DemoOutcome:
        """Audit the sink topic while Spark makes the tables."""
        with self._progress("tables") as progress:
            pipeline.begin()
            progress.show(0.0, "audit of the sink topic")
            findings = audit(produced, read_topic(stage.settings.client_config, stage.sink))
            tables, audited = pipeline.follow(progress, self._sample)
            progress.end(", ".join(f"{name} {rows:,}" for name, rows in tables.rows.items()))
        return DemoOutcome(
            self._options.guarantee,
            load,
            findings,
            tables,
            audited,
            self._usage.result(),
            self._directory,
            self._took,
        )

    def _finish(self, outcome: DemoOutcome, stage: _Stage) -> int:
        print_summary(outcome, self._console)
        for line in trace_of_open_tree(stage.topology, stage.settings, outcome.load.kills):
            self._console.print(Text(line), soft_wrap=True)
        if self._options.report is not None:
            _write_report(self._options.report, outcome)
        faults = outcome.faults()
        if faults:
            self._console.print(
                f"NOT GOOD: {'; '.join(faults)}.", style="bold red", markup=False, highlight=False
            )
            return 1
        over = len(outcome.findings.over)
        self._console.print(
            f"lost: 0, words over: {over:,}. Every word of every sentence is in the table,"
            f" {time.time() - self._started_at:.0f} s after the command.",
            style="bold green",
            highlight=False,
        )
        return 0

    def _sample(self) -> None:
        """Sample the usage of the processes every second."""
        now = time.monotonic()
        if now >= self._next_sample:
            self._next_sample = now + 1.0
            self._usage.sample()

    def _note_set_up(self) -> None:
        """Record the stages of the set-up, if this command did it, and the time since then."""
        home = os.environ.get("KSTORM_HOME")
        self._took = dict(set_up_times(Path(home), self._started_at)) if home else {}
        self._mark("start")

    def _mark(self, stage: str) -> None:
        """Record the seconds since the last stage ended."""
        self._took[stage] = time.time() - self._started_at - sum(self._took.values())

    @contextmanager
    def _progress(self, stage: str) -> Iterator[StageProgress]:
        with StageProgress(stage, self._console.file) as progress:
            yield progress
        self._mark(stage)

    def _say(self, text: str) -> None:
        self._console.print(Text(text, style="dim"), soft_wrap=True)


def _check_answer(settings: Settings) -> None:
    """Raise `BrokerError` if the user's servers do not respond, before the run creates anything on
    them."""
    topic_names(settings)
    with zookeeper_client(settings.zookeeper):
        pass


def _write_report(path: Path, outcome: DemoOutcome) -> None:
    path.write_text(
        json.dumps(outcome.to_json(), ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
    )


SOURCE_PARTITIONS: Final = 12


SINK_PARTITIONS: Final = 4


def create_demo_topics(settings: Settings, source: str, sink: str) -> None:
    """Create the source topic of the sentences and the sink topic of the counts.

    In the sink topic the broker sets the timestamps, so they are the arrival times of the records.
    """
    create_topic(settings, source, SOURCE_PARTITIONS)
    create_topic(settings, sink, SINK_PARTITIONS, {"message.timestamp.type": "LogAppendTime"})

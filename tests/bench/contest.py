"""One run of one contestant, measured from outside.

The steps: create topics, produce sentences, start the contestant's process, wait until all its
counts are written, stop it, delete the topics. During the run, the broker is asked only for the
number of records. They are read after the measured part.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kstorm.dev.processes import ManagedProcess
from kstorm.dev.servers import EmbeddedKafka
from tests.bench import corpus
from tests.bench.broker import Broker
from tests.bench.contestants import Contestant
from tests.bench.feed import RateFeed, fill, sentences_at
from tests.bench.figures import latencies_ms, quantile, steady_window, throughput, whole_window
from tests.bench.output import Counts, Reader, Verdict
from tests.bench.progress import Progress
from tests.bench.run_parameters import RunParameters
from tests.bench.usage import Usage
from tests.bench.waiting import Wait
from tests.bench.workers import figures_of_workers

_STOP_SECS: Final = 20.0
_BACKLOG_SECS: Final = 120.0
"""A contestant may work this long after the last sentence. Otherwise the rate was too high."""


@dataclass(frozen=True, slots=True)
class BenchRun:
    contestant: str
    sentences: int
    """The number of sentences that it was given."""
    figures: Mapping[str, float | None]
    """By name, which includes the unit. None if a figure is unknown."""
    correct: bool | None
    """None if the rate was too high, so that the run ended before all counts were written."""
    verdict: Verdict
    throughput: Sequence[float]
    """Sentences per second in each half second from its first count on."""
    latencies_ms: Sequence[float] = ()
    """One per measured sentence, sorted. Empty without a rate."""
    ratios: Mapping[str, float] = field(default_factory=dict)
    """Figures divided by those of the base."""


class Contest:
    """Runs contestants one after the other on one Kafka, each with topics of its own."""

    def __init__(
        self, kafka: EmbeddedKafka, directory: Path, progress: Progress, skew: float | None
    ) -> None:
        """`directory` gets a folder with the log of each run. `skew` is as in `corpus.texts`."""
        self._skew = skew
        self._kafka, self._directory, self._progress = kafka, directory, progress
        self._broker = Broker(kafka.bootstrap)
        self._filled: dict[int, str] = {}
        self._runs = 0

    def run(self, contestant: Contestant, sentences: int, rate: float | None) -> BenchRun:
        """Run a contestant once. `rate` is in sentences per second, None for as fast as possible.

        Raises `LocalError` if it exits or writes nothing, `BrokerError` if the broker fails.
        """
        self._runs += 1
        name = f"run{self._runs:02}"
        texts = corpus.texts(
            sentences if rate is None else sentences_at(rate, sentences), self._skew
        )
        source = f"{name}-sentences" if rate is not None else self._preloaded(texts)
        directory = self._directory / f"{name}-{contestant.name}"
        directory.mkdir()
        terms = RunParameters(self._kafka.bootstrap, source, f"{name}-counts", name, directory)
        before = self._broker.topics()
        if rate is not None:
            self._broker.create_source(source)
        self._broker.create_sink(terms.sink)
        run = self._measure(contestant, terms, texts, rate, before)
        # Including the contestant's own topics. After an error the whole broker is removed.
        self._broker.remove(self._broker.topics() - before)
        return run

    def _preloaded(self, texts: Sequence[str]) -> str:
        """Return the topic with these sentences, which all runs of the same size read."""
        count = len(texts)
        if count not in self._filled:
            self._progress.status(f"producing {count:,} sentences")
            topic = f"sentences-{count}"
            self._broker.create_source(topic)
            fill(self._kafka.bootstrap, topic, texts)
            self._filled[count] = topic
        return self._filled[count]

    def _measure(
        self,
        contestant: Contestant,
        terms: RunParameters,
        texts: Sequence[str],
        rate: float | None,
        before: set[str],
    ) -> BenchRun:
        """`before` are the topics that existed before. All others are the contestant's."""
        process = ManagedProcess(
            contestant.name,
            contestant.arguments,
            workdir=terms.directory,
            environment={**terms.environment(), **contestant.environment},
        )
        feed = None if rate is None else RateFeed(terms.bootstrap, terms.source, texts, rate)
        truth = corpus.true_counts(texts)  # before anything is measured
        with ExitStack() as stack:
            reader = Reader(
                terms.bootstrap,
                terms.sink,
                lambda count: self._progress.status(
                    f"{contestant.name}: {count:,} counts read back"
                ),
                by_batch=contestant.is_by_batch,
            )
            stack.callback(reader.close)
            process.start()
            stack.callback(process.stop, _STOP_SECS)
            if feed is not None:
                stack.callback(feed.stop)
            usage, broker_usage = (
                stack.enter_context(Usage(watched)) for watched in (process, self._kafka.process)
            )
            wait = Wait(process, self._broker, terms.sink, self._progress)
            kept_up = self._until_counted(
                wait, reader, truth, feed, by_batch=contestant.is_by_batch
            )
            # The contestant deletes its topics when it ends.
            begun = self._broker.first_stamp(self._broker.topics() - before)
        records = len(reader.counts.stamps)
        whole = records if contestant.is_by_batch else truth.total()
        share = min(1.0, records / whole)
        figures = _figures(reader.counts, share, len(texts), usage, broker_usage)
        if feed is None and begun is not None:
            figures |= _whole_figures(reader.counts, share, len(texts), usage, broker_usage, begun)
            seconds = len(texts) / (figures["whole_sentences_per_s"] or 1)
            figures |= figures_of_workers(terms.directory, len(texts), seconds)
        verdict = reader.counts.compare(truth)
        correct = verdict.correct if kept_up or verdict.correct else None
        latencies = _latencies(reader.counts, feed) if correct is not None else []
        if feed is not None:
            for title, share in (("p50_ms", 0.5), ("p99_ms", 0.99), ("max_ms", 1.0)):
                figures[title] = quantile(latencies, share)
        speed = throughput(reader.counts.stamps, truth.total() / whole)
        return BenchRun(contestant.name, len(texts), figures, correct, verdict, speed, latencies)

    def _until_counted(
        self,
        wait: Wait,
        reader: Reader,
        truth: Mapping[str, int],
        feed: RateFeed | None,
        *,
        by_batch: bool,
    ) -> bool:
        """Wait for all counts, or until no more arrive. False if the feed's rate was too high."""
        if feed is not None:
            feed.send_first()
        wait.for_first()
        deadline = None
        if feed is not None:
            feed.start()
            deadline = time.monotonic() + feed.seconds + _BACKLOG_SECS
        wanted = 1 if by_batch else sum(truth.values())
        while True:
            more = wait.for_records(wanted, deadline)
            if by_batch and more:
                wait.for_quiet()
            if feed is not None:
                feed.check()
            reader.read_to(wait.ends)
            if not more or reader.counts.compare(truth).short == 0:
                return deadline is None or time.monotonic() < deadline
            # There were replays before the last counts, so the total is higher.
            wanted = len(reader.counts.stamps) + 1


def _figures(
    counts: Counts, complete_share: float, sentences: int, usage: Usage, broker: Usage
) -> dict[str, float | None]:
    window = steady_window(counts.stamps)
    within = window.share * complete_share * sentences
    return {
        "sentences_per_s": within / window.seconds,
        "cpu_s_per_million": 1e6 * usage.cpu_seconds.between(window.begin, window.end) / within,
        "broker_cpu_s_per_million": 1e6
        * broker.cpu_seconds.between(window.begin, window.end)
        / within,
        "peak_rss_mb": usage.peak_rss / 2**20,
    }


def _whole_figures(
    counts: Counts, complete_share: float, sentences: int, usage: Usage, broker: Usage, begin: float
) -> dict[str, float | None]:
    """Return the same figures from the contestant's first record in any topic on.

    The steady window of a contestant that splits far ahead of its counting contains only the
    counting.
    """
    window = whole_window(counts.stamps, begin)
    within = complete_share * sentences
    return {
        "whole_sentences_per_s": within / window.seconds,
        "whole_cpu_s_per_million": 1e6
        * usage.cpu_seconds.between(window.begin, window.end)
        / within,
        "whole_broker_cpu_s_per_million": 1e6
        * broker.cpu_seconds.between(window.begin, window.end)
        / within,
    }


def _latencies(counts: Counts, feed: RateFeed | None) -> list[float]:
    if feed is None or feed.measured_from is None:
        return []
    return latencies_ms(counts.last_stamp, feed.measured_from)

"""`python -m tests.bench.plain_faust`: the word count in the style of Faust's documentation.

Two agents, with a topic of words keyed by word between them, and a table of counts. The table is in
memory, with Faust's changelog. Processing is at least once, with a commit every second.
"""

import logging
import sys
from typing import Any

import faust

from kstorm.dev.command_exit import run_command
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.topics import create_topic
from tests.bench.run_parameters import PARTITIONS, PRODUCER, RunParameters, from_environment


def make_app(terms: RunParameters) -> faust.App:
    app = faust.App(
        terms.run,
        broker=f"kafka://{terms.bootstrap}",
        store="memory://",
        datadir=terms.directory / "faust",
        topic_partitions=PARTITIONS,
        topic_replication_factor=1,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
        producer_acks=-1,
        producer_linger=PRODUCER["linger.ms"] / 1000,
        producer_max_batch_size=PRODUCER["batch.size"],
    )
    sentences = app.topic(terms.source, value_type=str, value_serializer="raw")
    words = app.topic(
        words_topic(terms),
        key_type=str,
        key_serializer="raw",
        value_type=str,
        value_serializer="raw",
    )
    sink = app.topic(
        terms.sink, key_type=str, key_serializer="raw", value_type=str, value_serializer="raw"
    )
    counts = app.Table("counts", default=int, partitions=PARTITIONS)

    @app.agent(sentences)  # type: ignore[untyped-decorator]
    async def split(stream: Any) -> None:
        async for sentence in stream:
            ident, *found = sentence.split()
            for word in found:
                await words.send(key=word, value=ident)

    @app.agent(words)  # type: ignore[untyped-decorator]
    async def count(stream: Any) -> None:
        async for word, ident in stream.items():
            counts[word] += 1
            await sink.send(key=word, value=f"{counts[word]} {ident}")

    return app


def words_topic(terms: RunParameters) -> str:
    """The topic between the agents."""
    return f"{terms.run}-words"


def run_faust(terms: RunParameters) -> int:
    """Run a worker until SIGTERM, which raises `SystemExit`.

    Raises `BrokerError` if the words topic cannot be created.
    """
    # A worker that creates this topic itself may never read it.
    create_topic(
        Settings(topology="", bootstrap_servers=terms.bootstrap), words_topic(terms), PARTITIONS
    )
    sys.argv = [sys.argv[0], "--loop", "uvloop", "worker", "--without-web", "--loglevel", "warn"]
    # At a lower level, each message would create debug records that are dropped.
    for library in ("faust", "mode", "aiokafka"):
        logging.getLogger(library).setLevel(logging.WARNING)
    make_app(terms).main()
    return 0


if __name__ == "__main__":
    sys.exit(run_command("kstorm bench faust", lambda: run_faust(from_environment())))

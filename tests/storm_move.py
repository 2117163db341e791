"""Follows the page *Move a running topology*: its files and commands, and what its topics contain."""

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from confluent_kafka import Producer

from kstorm.operations.migration.storm_offsets import GroupOffsets
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.whole_topic import read_whole_topic
from tests.tutorial import ROOT, assert_printed, blocks, environment, run, steps

PAGE: Final = ROOT / "docs" / "guides" / "move-from-storm.md"
PARTITIONS: Final = 4
"""Partitions of each topic."""


def sentence(partition: int, offset: int) -> str:
    """Return a sentence with a word of its own, so that each one can be recognized."""
    return f"p{partition}-{offset} the cow jumped over"


class Move:
    """The topics, and the commands of the page with these environment variables."""

    def __init__(self, bootstrap: str, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder, self.variables = folder, variables
        self.settings = Settings(topology="", bootstrap_servers=bootstrap)
        self.produced = 0

    def write_files(self) -> None:
        """Write the files of the page."""
        for block in blocks(PAGE):
            if block.title:
                (self.folder / block.title).write_text(block.text)

    def produce(self, count: int) -> None:
        """Write `count` sentences to each partition."""
        producer = Producer(self.settings.client_config)
        for offset in range(self.produced, self.produced + count):
            for partition in range(PARTITIONS):
                producer.produce("sentences", sentence(partition, offset), partition=partition)
            producer.poll(0)
        assert producer.flush(60) == 0
        self.produced += count

    def words(self, topic: str) -> Counter[str]:
        """Return how often each word was written."""
        return Counter(
            (record.key() or b"").decode() for record in read_whole_topic(self.settings, topic)
        )

    def stamps(self, topic: str) -> list[float]:
        """Return the times at which the words were written, in seconds since 1970."""
        return [record.timestamp()[1] / 1000 for record in read_whole_topic(self.settings, topic)]

    def expected(self, begins: Mapping[int, int]) -> Counter[str]:
        """Return the words of the sentences from these offsets on."""
        return Counter(
            word
            for partition in range(PARTITIONS)
            for offset in range(begins.get(partition, 0), self.produced)
            for word in sentence(partition, offset).split()
        )

    def has(self, topic: str, words: Counter[str]) -> bool:
        return words <= self.words(topic)

    def committed(self) -> dict[int, int]:
        """Return the offsets that Storm has committed, by partition."""
        group = GroupOffsets(self.settings, "storm-word-count")
        return {number: each.offset for number, each in group.read("sentences").items()}

    def execute(self, start: str) -> None:
        """Run the commands of the page's block that begins so. Compare what a block `console` shows."""
        for command, output in self._steps(start):
            printed = run(command, self.folder, self.variables)
            if output is not None:
                assert_printed(output, printed, command)

    def _steps(self, start: str) -> Iterable[tuple[str, str | None]]:
        (block,) = [
            block
            for block in blocks(PAGE)
            if block.language in ("console", "sh")
            and block.text.removeprefix("$ ").startswith(start)
        ]
        if block.language == "sh":
            return [(block.text.strip(), None)]
        return list(steps(block))

    @contextmanager
    def service(self, start: str) -> Iterator["subprocess.Popen[bytes]"]:
        """Run the command of the page's block `sh` that begins so. It has its own log."""
        ((command, _),) = self._steps(start)
        with (
            (self.folder / f"{start.split()[0]}.log").open("wb") as log,
            subprocess.Popen(
                [shutil.which("bash") or "/bin/sh", "-c", command],
                cwd=self.folder,
                env=environment(self.folder) | dict(self.variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                yield process
            finally:
                process.terminate()
                process.wait(60)

"""Runs in a pod: compares each word of each message with the records of the word count's sink.

A record is JSON with `word`, its `count`, and `id`: "topic-partition-offset-position" of a word in
the source.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence

from tests.e2e.inside.audit import audit
from tests.e2e.inside.tally import MessagePlace, SinkRecord


class Words:
    def __init__(self) -> None:
        self._occurrences = Counter[str]()
        self._highest = Counter[str]()

    def outputs_of(self, place: MessagePlace, value: bytes) -> Sequence[str]:
        words = value.decode().split()
        self._occurrences.update(words)
        return [f"{place}-{position}" for position in range(len(words))]

    def take(self, output: SinkRecord) -> str:
        record = json.loads(output.value)
        word, name = str(record["word"]), str(record["id"])
        self._highest[word] = max(record["count"], self._highest[word])
        return name

    def wrong(self) -> Sequence[str]:
        return [
            f"{word!r} is counted {self._highest[word]:,} times, and occurs {count:,} times"
            for word, count in sorted(self._occurrences.items())
            if self._highest[word] != count
        ]

    def in_tables(self) -> Mapping[str, int]:
        return self._occurrences


if __name__ == "__main__":
    audit(Words())

"""Reads a contestant's output and compares it with the truth, independent of how it was made."""

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import Consumer

from kstorm.dev.topic_reader import consume_to


@dataclass(frozen=True, slots=True)
class Verdict:
    """The comparison of a contestant's counts with the true ones."""

    short: int
    """Words whose highest count is below the true one, or that are missing."""
    over: int
    """The sum of the excess of the highest counts over the true ones, which replays cause."""
    strange: int
    """Invalid records: unreadable, or of a word that no sentence contains."""

    @property
    def correct(self) -> bool:
        """True if nothing is lost and no record is invalid."""
        return not self.short and not self.strange


class Counts:
    """All counts that a contestant wrote."""

    def __init__(self, *, by_batch: bool = False) -> None:
        """`by_batch` means that a value is a count without an id."""
        self._by_batch = by_batch
        self.stamps = array("q")
        """The broker's timestamps of all records in ms since 1970, unsorted."""
        self.last_stamp: dict[int, int] = {}
        """The timestamp of each sentence's last record, by the sentence's id."""
        self._highest: dict[bytes, int] = {}
        self._unreadable = 0

    def add(self, key: bytes | None, value: bytes | None, stamp: int) -> None:
        """Add one record. `stamp` is in ms since 1970."""
        self.stamps.append(stamp)
        try:
            count, *ident = map(int, (value or b"").split())
            if len(ident) == self._by_batch:
                raise ValueError("an id too many, or none")
        except ValueError:
            self._unreadable += 1
            return
        if count > self._highest.get(key or b"", 0):
            self._highest[key or b""] = count
        if ident and stamp > self.last_stamp.get(ident[0], 0):
            self.last_stamp[ident[0]] = stamp

    def compare(self, truth: Mapping[str, int]) -> Verdict:
        """Judge all records added so far."""
        true = {word.encode(): count for word, count in truth.items()}
        highest = self._highest
        return Verdict(
            short=sum(highest.get(word, 0) < count for word, count in true.items()),
            over=sum(max(0, highest.get(word, 0) - count) for word, count in true.items()),
            strange=self._unreadable + len(highest.keys() - true.keys()),
        )


class Reader:
    """Reads a topic of counts step by step. Call `close` at the end."""

    def __init__(
        self, bootstrap: str, topic: str, show: Callable[[int], None], *, by_batch: bool = False
    ) -> None:
        """`show` is called at times with the number of records read. `by_batch`: see `Counts`."""
        self.counts = Counts(by_batch=by_batch)
        self._show = show
        self._topic = topic
        self._positions: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": f"{topic}-reader",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )

    def read_to(self, ends: Mapping[int, int]) -> None:
        """Read up to these offsets, by partition. Raises `BrokerError` if records are missing."""
        for messages in consume_to(self._consumer, self._topic, ends, self._positions):
            for message in messages:
                self.counts.add(message.key(), message.value(), message.timestamp()[1])
            self._show(len(self.counts.stamps))

    def close(self) -> None:
        self._consumer.close()

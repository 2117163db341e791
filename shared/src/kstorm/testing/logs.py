"""A broker in memory: partition logs, committed offsets, changelogs with transactions.

Whatever is here survives the crash of a process; whatever is not is lost.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

TopicPartition = tuple[str, int]
"""A topic and a partition of it."""

Change = tuple[bytes, bytes | None]
"""A record of a changelog: a key and its value; None deletes it."""


class Fate(Enum):
    """What has become of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


_GROUP: TopicPartition = ("__consumer_offsets", 0)
"""Where the offsets of a transaction are; one is for one group."""


@dataclass(eq=False)
class Transaction:
    """Changes and offsets that count together or not at all.

    When it ends, each partition that has something of it learns that by a marker of its own; until then it is open there.
    """

    began: float
    fate: Fate = Fate.OPEN
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    unmarked: dict[TopicPartition, list[Callable[[], object]]] = field(default_factory=dict)
    """The partitions that have something of it and no marker, with what comes to pass there if it is committed."""

    def is_open_at(self, place: TopicPartition) -> bool:
        """Whether a partition does not know yet how it ended."""
        return place in self.unmarked


@dataclass(eq=False, slots=True)
class Written:
    """A record of a changelog, as the log has it. A compacted one is still there, and is read no more."""

    change: Change
    transaction: Transaction
    at: float
    place: TopicPartition
    compacted: bool = False

    @property
    def is_open(self) -> bool:
        """Whether its transaction is, as far as its partition knows."""
        return self.transaction.is_open_at(self.place)


class Logs:
    """Records are appended and never change; an offset is a record's position."""

    def __init__(self) -> None:
        self._records: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self._transactional: defaultdict[TopicPartition, dict[int, Transaction]] = defaultdict(dict)
        self._committed: dict[TopicPartition, int] = {}
        self._changes: defaultdict[TopicPartition, list[Written]] = defaultdict(list)
        self._readers: defaultdict[TopicPartition, dict[object, Callable[[], object]]] = (
            defaultdict(dict)
        )
        self._open: dict[object, Transaction] = {}
        self._ending: list[
            tuple[object, Transaction]
        ] = []  # those of which not all partitions know the end
        self._epochs: defaultdict[object, int] = defaultdict(int)
        self._lives: Counter[str] = Counter()  # by topic, how often it was made anew
        self.stalled: set[TopicPartition] = set()
        """Partitions that cannot be read or written at the moment."""
        self.bring: Callable[[Callable[[], None]], object] = lambda mark: mark()
        """How the marker of a transaction comes to a partition: at once, unless the world brings it later."""

    def append(self, place: TopicPartition, value: bytes) -> int:
        """Adds a record and returns its offset."""
        records = self._records[place]
        records.append(value)
        for wake in self._readers[place].values():
            wake()
        return len(records) - 1

    def append_in(self, transaction: Transaction, place: TopicPartition, value: bytes) -> int:
        """As `append`, in a transaction. Raises `ValueError` if that has ended."""
        self.take_part(transaction, place)
        self._transactional[place][len(self._records[place])] = transaction
        return self.append(place, value)

    def stable_end(self, place: TopicPartition) -> int:
        """Up to where whoever reads what is committed may read: the first record of an open transaction, or the end."""
        open_ones = (at for at, of in self._transactional[place].items() if of.is_open_at(place))
        return min(open_ones, default=len(self._records[place]))

    def committed_records(
        self, place: TopicPartition, start: int, end: int
    ) -> list[tuple[int, bytes]]:
        """The records from `start` to before `end` with their offsets, without those of transactions that were aborted."""
        of, log = self._transactional[place], self._records[place]
        return [
            (at, log[at])
            for at in range(start, end)
            if at not in of or of[at].fate is Fate.COMMITTED
        ]

    def watch(self, place: TopicPartition, reader: object, wake: Callable[[], object]) -> None:
        """From now on `wake` is called whenever a partition grows."""
        self._readers[place][reader] = wake

    def unwatch(self, place: TopicPartition, reader: object) -> None:
        """From now on it is not."""
        self._readers[place].pop(reader, None)

    def records(self, place: TopicPartition) -> list[bytes]:
        """All records of a partition: the log itself, which goes on to grow."""
        return self._records[place]

    def places(self) -> list[TopicPartition]:
        """Every partition that has been read or written, in order."""
        return sorted(self._records)

    def topic(self, topic: str) -> list[bytes]:
        """All records of a topic that are committed, partition by partition."""
        mine = [place for place in self.places() if place[0] == topic]
        return [
            value
            for place in mine
            for _, value in self.committed_records(place, 0, len(self._records[place]))
        ]

    # Offsets.

    def committed(self, place: TopicPartition, nothing: int = 0) -> int:
        """The offset from which a restarted consumer goes on; `nothing` if none was ever committed."""
        return self._committed.get(place, nothing)

    def is_stable(self, place: TopicPartition) -> bool:
        """Whether no open transaction has an offset of this partition: until then a new reader is not answered."""
        if any(place in transaction.offsets for transaction in self._open.values()):
            return False
        return not any(
            place in ending.offsets and ending.is_open_at(_GROUP) for _, ending in self._ending
        )

    def commit(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Sets where restarted consumers go on."""
        self._committed.update(offsets)

    # Transactions.

    def begin_epoch(self, owner: object) -> int:
        """A producer starts under this name: what its predecessor left open is aborted, and it can begin nothing more."""
        if owner in self._open:
            self.end(self._open[owner], Fate.ABORTED)
        self._epochs[owner] += 1
        return self._epochs[owner]

    def newest(self, owner: object, epoch: int) -> bool:
        """Whether no other producer has started under this name since."""
        return epoch == self._epochs[owner]

    def begin(self, owner: object, epoch: int, now: float) -> Transaction:
        """Begins the transaction of an owner, which may have one at a time. Raises `ValueError` if it has a successor."""
        if not self.newest(owner, epoch):
            raise ValueError("another producer has this name")
        transaction = self._open[owner] = Transaction(now)
        return transaction

    def may_begin(self, owner: object) -> bool:
        """Whether an owner's last transaction has ended everywhere: before that it may begin no other."""
        return not any(other == owner for other, _ in self._ending)

    def open_of(self, owner: object, epoch: int) -> Transaction | None:
        """The transaction that an owner has open, if it still is of that epoch."""
        return self._open.get(owner) if self.newest(owner, epoch) else None

    def take_part(
        self, transaction: Transaction, place: TopicPartition, *acts: Callable[[], object]
    ) -> None:
        """A partition has something of a transaction; if that is committed, `acts` come to pass when the partition learns it.
        Raises `ValueError` if the transaction has ended."""
        self._expect_open(transaction)
        transaction.unmarked.setdefault(place, []).extend(acts)

    def write(
        self, transaction: Transaction, place: TopicPartition, change: Change, now: float
    ) -> int:
        """Writes one key of a changelog; returns the record's offset. Raises `ValueError` if the transaction has ended."""
        self.take_part(transaction, place)
        changes = self._changes[place]
        changes.append(Written(change, transaction, now, place))
        return len(changes) - 1

    def hand_in(self, transaction: Transaction, offsets: Mapping[TopicPartition, int]) -> None:
        """Adds offsets to a transaction. Raises `ValueError` if it has ended."""
        self.take_part(transaction, _GROUP)
        transaction.offsets.update(offsets)

    def end(self, transaction: Transaction, fate: Fate) -> None:
        """Commits or aborts. Raises `ValueError` if it has ended."""
        self._expect_open(transaction)
        transaction.fate = fate
        owner = next((owner for owner, other in self._open.items() if other is transaction), None)
        self._open.pop(owner, None)
        self._ending.append((owner, transaction))
        self._tidy()
        for place in list(transaction.unmarked):
            self.bring(partial(self._mark, transaction, place))
        self._wake_all()

    def _mark(self, transaction: Transaction, place: TopicPartition) -> None:
        """A partition learns how a transaction has ended: its records are as all others from now on, or are none."""
        acts = transaction.unmarked.pop(place)
        self._tidy()
        if transaction.fate is Fate.COMMITTED:
            if place == _GROUP:
                self._committed.update(transaction.offsets)
            elif (of := self._transactional.get(place)) is not None:
                self._transactional[place] = {
                    at: other for at, other in of.items() if other is not transaction
                }
            for act in acts:
                act()

    def _tidy(self) -> None:
        self._ending = [(owner, ending) for owner, ending in self._ending if ending.unmarked]

    def expire_transactions(self, now: float, secs: float) -> bool:
        """Aborts those that have been open for so long; whether there was any."""
        old = [
            transaction for transaction in self._open.values() if now - transaction.began >= secs
        ]
        for transaction in old:
            self.end(transaction, Fate.ABORTED)
        return bool(old)

    @staticmethod
    def _expect_open(transaction: Transaction) -> None:
        if transaction.fate is not Fate.OPEN:
            raise ValueError(f"the transaction is {transaction.fate.name}")

    def _wake_all(self) -> None:
        for readers in self._readers.values():
            for wake in readers.values():
                wake()

    # Changelogs.

    def changelog(self, place: TopicPartition) -> list[Written]:
        """All records of a changelog's partition, of transactions of any fate."""
        return self._changes[place]

    def topic_id(self, topic: str) -> bytes:
        """Names the incarnation of a topic."""
        return b"%s %d" % (topic.encode(), self._lives[topic])

    def remake_changelog(self, topic: str) -> None:
        """A changelog is deleted and made again: it is empty, and another."""
        self._lives[topic] += 1
        for place in [place for place in self._changes if place[0] == topic]:
            del self._changes[place]

    def compact_all(self, now: float, tombstone_secs: float) -> None:
        """Removes what later records of the same key supersede, and tombstones that are older than `tombstone_secs`."""
        for place in self._changes:
            self._compact(place, now, tombstone_secs)

    def _compact(self, place: TopicPartition, now: float, tombstone_secs: float) -> None:
        newest: set[bytes] = set()
        for written in reversed(self._changes[place]):
            if (
                written.transaction.fate is not Fate.COMMITTED
                or written.is_open
                or written.compacted
            ):
                continue
            key, value = written.change
            if key in newest or (value is None and now - written.at >= tombstone_secs):
                written.compacted = True
            newest.add(key)

"""A broker in memory: partition logs, committed offsets, and changelogs with transactions.

Everything here survives the crash of a process. Everything else is lost.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial

TopicPartition = tuple[str, int]

Change = tuple[bytes, bytes | None]
"""A changelog record: a key and its value. None deletes the key."""


class TransactionFate(Enum):
    """The state of a transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()


_GROUP: TopicPartition = ("__consumer_offsets", 0)
"""Holds the offsets of a transaction. A transaction belongs to one group."""


@dataclass(eq=False)
class Transaction:
    """Changes and offsets that are committed together or not at all.

    When it ends, each partition in it gets a marker of its own. Until then the transaction is open
    in that partition.
    """

    began: float
    fate: TransactionFate = TransactionFate.OPEN
    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    unmarked: dict[TopicPartition, list[Callable[[], object]]] = field(default_factory=dict)
    """Partitions in the transaction without a marker yet, with callbacks to run there on commit."""

    def is_open_at(self, place: TopicPartition) -> bool:
        """Return True while a partition has not received the marker."""
        return place in self.unmarked


@dataclass(eq=False, slots=True)
class ChangelogRecord:
    """A changelog record. A compacted one stays in the list but is no longer read."""

    change: Change
    transaction: Transaction
    at: float
    place: TopicPartition
    compacted: bool = False

    @property
    def is_open(self) -> bool:
        """True while its partition has no marker of its transaction."""
        return self.transaction.is_open_at(self.place)


class BrokerLogs:
    """Append-only partition logs. An offset is a record's position."""

    def __init__(self) -> None:
        self._records: defaultdict[TopicPartition, list[bytes]] = defaultdict(list)
        self._transactional: defaultdict[TopicPartition, dict[int, Transaction]] = defaultdict(dict)
        self._committed: dict[TopicPartition, int] = {}
        self._changes: defaultdict[TopicPartition, list[ChangelogRecord]] = defaultdict(list)
        self._readers: defaultdict[TopicPartition, dict[object, Callable[[], object]]] = (
            defaultdict(dict)
        )
        self._open: dict[object, Transaction] = {}
        # ended transactions with a marker that is still missing in some partition
        self._ending: list[tuple[object, Transaction]] = []
        self._epochs: defaultdict[object, int] = defaultdict(int)
        self._lives: Counter[str] = Counter()  # times that each topic was recreated
        self._closed: defaultdict[TopicPartition, int] = defaultdict(int)
        # offsets before which no record is in an open transaction
        self.revision = 0
        """Changes whenever a record, an offset or a transaction does."""
        self.stalled: set[TopicPartition] = set()
        """Partitions that cannot be read or written now."""
        self.bring: Callable[[Callable[[], None]], object] = lambda mark: mark()
        """Delivers the marker of a transaction to a partition: immediately, unless the world delays
        it."""

    def append(self, place: TopicPartition, value: bytes) -> int:
        """Append a record and return its offset."""
        self.revision += 1
        records = self._records[place]
        records.append(value)
        for wake in self._readers[place].values():
            wake()
        return len(records) - 1

    def append_in(self, transaction: Transaction, place: TopicPartition, value: bytes) -> int:
        """Append a record in a transaction. Raises `ValueError` if the transaction has ended."""
        self.take_part(transaction, place)
        self._transactional[place][len(self._records[place])] = transaction
        return self.append(place, value)

    def stable_end(self, place: TopicPartition) -> int:
        """Return the end offset for read-committed readers: the first record of an open
        transaction, or the end."""
        of, end = self._transactional[place], len(self._records[place])
        at = self._closed[place]
        while at < end and not (at in of and of[at].is_open_at(place)):
            at += 1
        self._closed[place] = at
        return at

    def committed_records(
        self, place: TopicPartition, start: int, end: int
    ) -> list[tuple[int, bytes]]:
        """Return the records from `start` to before `end`, with their offsets and without aborted
        ones."""
        of, log = self._transactional[place], self._records[place]
        return [
            (at, log[at])
            for at in range(start, end)
            if at not in of or of[at].fate is TransactionFate.COMMITTED
        ]

    def watch(self, place: TopicPartition, reader: object, wake: Callable[[], object]) -> None:
        """Call `wake` from now on whenever the partition grows."""
        self._readers[place][reader] = wake

    def unwatch(self, place: TopicPartition, reader: object) -> None:
        self._readers[place].pop(reader, None)

    def records(self, place: TopicPartition) -> list[bytes]:
        """Return the log of a partition itself, which keeps growing."""
        return self._records[place]

    def places(self) -> list[TopicPartition]:
        """Return every partition that has been read or written, sorted."""
        return sorted(self._records)

    def topic(self, topic: str) -> list[bytes]:
        """Return all committed records of a topic, partition by partition."""
        mine = [place for place in self.places() if place[0] == topic]
        return [
            value
            for place in mine
            for _, value in self.committed_records(place, 0, len(self._records[place]))
        ]

    # Offsets.

    def committed(self, place: TopicPartition, nothing: int = 0) -> int:
        """Return the offset at which a restarted consumer resumes, or `nothing` if none was ever
        committed."""
        return self._committed.get(place, nothing)

    def is_stable(self, place: TopicPartition) -> bool:
        """Return True if no open transaction contains an offset of this partition.

        A new reader gets no answer until then.
        """
        if any(place in transaction.offsets for transaction in self._open.values()):
            return False
        return not any(
            place in ending.offsets and ending.is_open_at(_GROUP) for _, ending in self._ending
        )

    def commit(self, offsets: Iterable[tuple[TopicPartition, int]]) -> None:
        """Set the offsets at which restarted consumers resume."""
        self.revision += 1
        self._committed.update(offsets)

    # Transactions.

    def begin_epoch(self, owner: object) -> int:
        """Start a producer under this name and return its epoch.

        Aborts the open transaction of its predecessor, which can begin no other.
        """
        if owner in self._open:
            self.end(self._open[owner], TransactionFate.ABORTED)
        self._epochs[owner] += 1
        return self._epochs[owner]

    def newest(self, owner: object, epoch: int) -> bool:
        """Return True if no later producer has started under this name."""
        return epoch == self._epochs[owner]

    def begin(self, owner: object, epoch: int, now: float) -> Transaction:
        """Begin an owner's only open transaction. Raises `ValueError` if it has a successor."""
        if not self.newest(owner, epoch):
            raise ValueError("another producer has this name")
        transaction = self._open[owner] = Transaction(now)
        return transaction

    def may_begin(self, owner: object) -> bool:
        """Return True once an owner's last transaction has ended in all partitions."""
        return not any(other == owner for other, _ in self._ending)

    def open_of(self, owner: object, epoch: int) -> Transaction | None:
        """Return an owner's open transaction, if it still belongs to that epoch."""
        return self._open.get(owner) if self.newest(owner, epoch) else None

    def open_at(self, place: TopicPartition) -> list[Transaction]:
        """Return the transactions in which a partition takes part, as far as it knows."""
        ending = [transaction for _, transaction in self._ending]
        return [one for one in (*self._open.values(), *ending) if one.is_open_at(place)]

    def take_part(
        self, transaction: Transaction, place: TopicPartition, *acts: Callable[[], object]
    ) -> None:
        """Add a partition to a transaction, with `acts` to run when the partition learns of its
        commit.

        Raises `ValueError` if the transaction has ended.
        """
        self._expect_open(transaction)
        self.revision += 1
        transaction.unmarked.setdefault(place, []).extend(acts)

    def write(
        self, transaction: Transaction, place: TopicPartition, change: Change, now: float
    ) -> int:
        """Write one key of a changelog and return the record's offset.

        Raises `ValueError` if the transaction has ended.
        """
        self.take_part(transaction, place)
        changes = self._changes[place]
        changes.append(ChangelogRecord(change, transaction, now, place))
        return len(changes) - 1

    def hand_in(self, transaction: Transaction, offsets: Mapping[TopicPartition, int]) -> None:
        """Add offsets to a transaction. Raises `ValueError` if it has ended."""
        self.take_part(transaction, _GROUP)
        transaction.offsets.update(offsets)

    def end(self, transaction: Transaction, fate: TransactionFate) -> None:
        """Commit or abort. Raises `ValueError` if the transaction has already ended."""
        self._expect_open(transaction)
        self.revision += 1
        transaction.fate = fate
        owner = next((owner for owner, other in self._open.items() if other is transaction), None)
        self._open.pop(owner, None)
        self._ending.append((owner, transaction))
        self._tidy()
        for place in list(transaction.unmarked):
            self.bring(partial(self._mark, transaction, place))
        self._wake_all()

    def _mark(self, transaction: Transaction, place: TopicPartition) -> None:
        """Deliver the marker to a partition: its records of the transaction become visible or are
        dropped."""
        self.revision += 1
        acts = transaction.unmarked.pop(place)
        self._tidy()
        if transaction.fate is TransactionFate.COMMITTED:
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
        """Abort transactions open for `secs` or longer. Return True if there were any."""
        old = [
            transaction for transaction in self._open.values() if now - transaction.began >= secs
        ]
        for transaction in old:
            self.end(transaction, TransactionFate.ABORTED)
        return bool(old)

    @staticmethod
    def _expect_open(transaction: Transaction) -> None:
        if transaction.fate is not TransactionFate.OPEN:
            raise ValueError(f"the transaction is {transaction.fate.name}")

    def _wake_all(self) -> None:
        for readers in self._readers.values():
            for wake in readers.values():
                wake()

    # Changelogs.

    def changelog(self, place: TopicPartition) -> list[ChangelogRecord]:
        """Return all records of a changelog partition, whatever the state of their transactions."""
        return self._changes[place]

    def topic_id(self, topic: str) -> bytes:
        """Return an id of the topic's current incarnation."""
        return b"%s %d" % (topic.encode(), self._lives[topic])

    def remake_changelog(self, topic: str) -> None:
        """Delete and recreate a changelog: it is empty and has a new id."""
        self.revision += 1
        self._lives[topic] += 1
        for place in [place for place in self._changes if place[0] == topic]:
            del self._changes[place]

    def compact_all(self, now: float, tombstone_secs: float) -> None:
        """Remove superseded records, and tombstones older than `tombstone_secs`."""
        for place in self._changes:
            self._compact(place, now, tombstone_secs)

    def _compact(self, place: TopicPartition, now: float, tombstone_secs: float) -> None:
        newest: set[bytes] = set()
        for written in reversed(self._changes[place]):
            if (
                written.transaction.fate is not TransactionFate.COMMITTED
                or written.is_open
                or written.compacted
            ):
                continue
            key, value = written.change
            if key in newest or (value is None and now - written.at >= tombstone_secs):
                written.compacted = True
            newest.add(key)

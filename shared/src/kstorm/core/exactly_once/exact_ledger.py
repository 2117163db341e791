"""The acker's ledger with exactly-once processing."""

from collections.abc import Iterable, Iterator

from kstorm.core.ledger import BUCKETS, Ledger


class ExactLedger(Ledger):
    """Like `Ledger`, but rows never expire, because no tree is given up.

    The order of messages matters here, and Kafka preserves it. Bolts receive a tree's tuples only
    through the transaction that contains the tree's init. So the init precedes all other messages
    of the tree in the log. If a message has no row, no spout task waits for its tree any more.
    """

    def _apply_acks(self, pairs: Iterable[tuple[int, int]]) -> None:
        buckets = self._buckets
        super()._apply_acks([pair for pair in pairs if pair[0] in buckets[pair[0] % BUCKETS]])

    def _apply_fails(self, roots: Iterable[int]) -> None:
        super()._apply_fails(self._known(roots))

    def _apply_resets(self, roots: Iterable[int]) -> None:
        super()._apply_resets(self._known(roots))

    def _apply_beginning(self, task: int, offset: int) -> None:
        """Drop the trees of the spout task's earlier run, because no task waits for them."""
        for number, rows in enumerate(self._buckets):
            if offset > self._stamps[number]:  # rule 2: the bucket does not include this record yet
                kept = {root: row for root, row in rows.items() if self._task(row) != task}
                self.expired += len(rows) - len(kept)
                self._buckets[number] = kept

    def rotate(self) -> None:
        """Do nothing, because an outage must not end trees that continue after it."""

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        super().restore(stored)
        # Rows without an init are from a time when the topology was processed at least once.
        self._buckets = [
            {root: row for root, row in rows.items() if self._task(row)} for rows in self._buckets
        ]

    def _known(self, roots: Iterable[int]) -> Iterator[int]:
        return (root for root in roots if root in self._buckets[root % BUCKETS])

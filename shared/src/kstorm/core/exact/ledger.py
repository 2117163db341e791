"""The acker's ledger where everything is processed exactly once."""

from collections.abc import Iterable, Iterator

from kstorm.core.ledger import BUCKETS, Ledger


class ExactLedger(Ledger):
    """As `Ledger`, but no row is dropped for its age, since no tree is given up: what a tree waits for happens, however late.

    The order of messages matters here, and Kafka keeps it. A tree's init is in the transaction without which no bolt gets its
    tuples, so it stands in the log before any news of the tree. News without a row are of a tree that nobody waits for.
    """

    def _apply_acks(self, pairs: Iterable[tuple[int, int]]) -> None:
        buckets = self._buckets
        super()._apply_acks([pair for pair in pairs if pair[0] in buckets[pair[0] % BUCKETS]])

    def _apply_fails(self, roots: Iterable[int]) -> None:
        super()._apply_fails(self._known(roots))

    def _apply_resets(self, roots: Iterable[int]) -> None:
        super()._apply_resets(self._known(roots))

    def _apply_beginning(self, task: int, offset: int) -> None:
        """Drops the trees of the spout task's life before: nobody waits for them."""
        for number, rows in enumerate(self._buckets):
            if offset > self._stamps[number]:  # rule 2
                kept = {root: row for root, row in rows.items() if self._task(row) != task}
                self.expired += len(rows) - len(kept)
                self._buckets[number] = kept

    def rotate(self) -> None:
        """Does nothing: an outage must not end trees that go on when it is over."""

    def restore(self, stored: Iterable[tuple[bytes, bytes]]) -> None:
        """See `Ledger.restore`. Rows without an init were left by a topology that was processed at least once."""
        super().restore(stored)
        self._buckets = [
            {root: row for root, row in rows.items() if self._task(row)} for rows in self._buckets
        ]

    def _known(self, roots: Iterable[int]) -> Iterator[int]:
        return (root for root in roots if root in self._buckets[root % BUCKETS])

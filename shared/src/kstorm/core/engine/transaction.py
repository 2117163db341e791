"""The requests of one transaction: their order, and the reaction to each response.

1. Write the changes to the changelog and the records to their topics.
2. Flush: wait until all of them have arrived.
3. Only then send the offsets. If the process has lost its tasks, the group refuses the offsets, and
   the transaction fails with them.
4. Commit.

A process that takes over a task reads the changelog to its end, including open transactions, and
waits for these. If offsets could be accepted before the changes had arrived, a process might pause
between the two. Its successor would not notice the transaction, and would start at the new offsets
with a state that lacks the changes.

A refused transaction is aborted, and the same content is written again. An unanswered request is
repeated, but its records are never written again, because the request may have succeeded.

Kafka's requests carry their producer's epoch but no transaction number (in librdkafka). So a late
copy of a request could affect the next transaction, by ending it too early or by resetting its
offsets. Therefore, after any request that was not answered immediately, the producer is replaced
before the next transaction. The new producer has a higher epoch, and brokers reject all late
requests of the old one.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import Final


class Request(Enum):
    """A request to Kafka."""

    REPLACE = auto()
    """Replace the producer by a new one with the same name."""
    BEGIN = auto()
    """Begin a transaction with the group's current metadata."""
    WRITE = auto()
    FLUSH = auto()
    OFFSETS = auto()
    COMMIT = auto()
    ABORT = auto()


class Answer(Enum):
    DONE = auto()
    NONE = auto()
    """No answer: the outcome is unknown."""
    REFUSED = auto()
    """The transaction can no longer be committed."""
    TAKEN_BACK = auto()
    """The transaction was ended without waiting for an answer, and before any commit request.

    Either a record was rejected, or the offsets were not accepted in time.
    """


REQUEST_ORDER: Final = (Request.WRITE, Request.FLUSH, Request.OFFSETS, Request.COMMIT)
"""Request order when nothing is refused."""


class Transactions:
    """The transactions of one process, one at a time."""

    def __init__(self) -> None:
        self.doubtful = False
        """True if a copy of a request may still arrive, or the producer may have an unfinished
        transaction."""

    def begin(self) -> "TransactionalWrite":
        return TransactionalWrite(self)


class TransactionalWrite:
    """A value that is written until it is committed, in one or more transactions."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._requests = self._all()
        self.next: Request | None = next(self._requests)
        """The request to make now. None once everything is committed."""

    def answered(self, answer: Answer, *, at_once: bool = True) -> None:
        """Handle the answer to the request. `at_once`: no other copy of the request can exist."""
        if not at_once or answer in (Answer.NONE, Answer.TAKEN_BACK):
            self._transactions.doubtful = True
        try:
            self.next = self._requests.send(answer)
        except StopIteration:
            self.next = None

    def _all(self) -> Generator[Request, Answer, None]:
        while True:
            if self._transactions.doubtful:
                yield Request.REPLACE
                self._transactions.doubtful = False
            yield Request.BEGIN
            answer = yield from self._in_order()
            if answer is Answer.DONE:
                return
            if answer is Answer.REFUSED:
                yield from self._asked(Request.ABORT)

    def _in_order(self) -> Generator[Request, Answer, Answer]:
        for request in REQUEST_ORDER:
            answer = yield from self._asked(request)
            if answer is not Answer.DONE:
                return answer
        return Answer.DONE

    @staticmethod
    def _asked(request: Request) -> Generator[Request, Answer, Answer]:
        """Repeat the request until it is answered."""
        while (answer := (yield request)) is Answer.NONE:
            pass
        return answer

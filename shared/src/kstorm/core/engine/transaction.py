"""The requests that make one transaction: their order, and what follows from each answer.

1. The changes are written to the changelog, and the records to their topics.
2. All of them have arrived. Only then
3. the offsets are handed in, which the group refuses to a process that has lost its tasks, and with them the transaction.
4. It is committed.

Whoever takes a task over reads the changelog up to its end, open transactions included, and waits for what is open there.
If offsets could be accepted before the changes had arrived, a process that sleeps between the two would be missed: its
successor would go on behind the offsets, from a state without the changes.

What is refused is taken back and written again, the same. What is not answered is asked for again and never written again: it may
have been done.

Kafka's requests carry the number of their producer's epoch and none of the transaction (those of librdkafka). So a late copy of one
could hit the next transaction: end it when half of it is written, or set its offsets back. After any request that was not answered
at once the producer is replaced before the next transaction. The new one has a higher epoch, and the brokers refuse whatever of
the old one is still on its way.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import Final


class Request(Enum):
    """What is asked of Kafka, one after the other."""

    REPLACE = auto()
    """A new producer takes the place of the one there is, under the same name."""
    BEGIN = auto()
    """A transaction, with what is known of the group now."""
    WRITE = auto()
    FLUSH = auto()
    OFFSETS = auto()
    COMMIT = auto()
    ABORT = auto()


class Answer(Enum):
    """What has come of a request."""

    DONE = auto()
    NONE = auto()
    """Nothing is known of it."""
    REFUSED = auto()
    """Nothing of the transaction can be committed any more."""
    TAKEN_BACK = auto()
    """It was ended without an answer being waited for, before a commit was asked for: a record was refused, or the offsets were not
    taken in time."""


ORDER: Final = (Request.WRITE, Request.FLUSH, Request.OFFSETS, Request.COMMIT)
"""Of the requests of a transaction that nobody refuses."""


class Transactions:
    """The transactions of one process, one at a time."""

    def __init__(self) -> None:
        self.doubtful = False
        """Whether a copy of a request may still be on its way, or the producer has something left of a transaction."""

    def begin(self) -> "Writing":
        """Writes something."""
        return Writing(self)


class Writing:
    """Something that is written until it is committed, in one transaction after the other."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._requests = self._all()
        self.next: Request | None = next(self._requests)
        """The request to make now; None when all is committed."""

    def answered(self, answer: Answer, *, at_once: bool = True) -> None:
        """What has come of the request; `at_once`: whether there cannot be another copy of it."""
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
        for request in ORDER:
            answer = yield from self._asked(request)
            if answer is not Answer.DONE:
                return answer
        return Answer.DONE

    @staticmethod
    def _asked(request: Request) -> Generator[Request, Answer, Answer]:
        """Asks until there is an answer."""
        while (answer := (yield request)) is Answer.NONE:
            pass
        return answer

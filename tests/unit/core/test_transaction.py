"""The Kafka requests of one transaction, and the reaction to each answer."""

from collections.abc import Iterable

import pytest

from kstorm.core.engine.transaction import REQUEST_ORDER, Answer, Request, Transactions

DONE, NONE, REFUSED, TAKEN_BACK = Answer.DONE, Answer.NONE, Answer.REFUSED, Answer.TAKEN_BACK
WRITE, FLUSH, OFFSETS, COMMIT = REQUEST_ORDER
BEGIN, ABORT, REPLACE = Request.BEGIN, Request.ABORT, Request.REPLACE


def asked(
    transactions: Transactions, answers: Iterable[Answer], *, late: int = -1
) -> list[Request]:
    """Returns the requests of one write whose first answers are `answers`, and whose others are `DONE`.

    All answers come at once, except that of request `late`.
    """
    writing, made, given = transactions.begin(), list[Request](), iter(answers)
    while writing.next is not None:
        made.append(writing.next)
        writing.answered(next(given, DONE), at_once=len(made) - 1 != late)
    return made


def test_records_are_flushed_before_offsets_are_sent() -> None:
    """The commit comes last."""
    assert asked(Transactions(), []) == [BEGIN, WRITE, FLUSH, OFFSETS, COMMIT]


@pytest.mark.parametrize("number", [3, 4])
def test_unanswered_request_is_repeated(number: int) -> None:
    """The request may have taken effect, and a repeated write would duplicate records."""
    transactions = Transactions()
    before = [BEGIN, *REQUEST_ORDER]
    made = asked(transactions, [*[DONE] * number, NONE, NONE])
    assert made == [*before[:number], before[number], before[number], *before[number:]]
    assert asked(transactions, []) == [REPLACE, BEGIN, *REQUEST_ORDER]
    assert asked(transactions, []) == [BEGIN, *REQUEST_ORDER]


def test_refused_transaction_is_aborted_and_written_again() -> None:
    """The same producer writes again, because the abort was answered."""
    answers = [DONE, DONE, DONE, REFUSED, DONE, DONE, DONE, DONE, DONE, REFUSED]
    once = [BEGIN, WRITE, FLUSH, OFFSETS]
    assert asked(Transactions(), answers) == [*once, ABORT, *once, COMMIT, ABORT, *once, COMMIT]


def test_unanswered_abort_is_repeated() -> None:
    """A late copy of the abort could end the next transaction."""
    made = asked(Transactions(), [DONE, DONE, DONE, REFUSED, NONE])
    assert made == [BEGIN, WRITE, FLUSH, OFFSETS, ABORT, ABORT, REPLACE, BEGIN, *REQUEST_ORDER]


@pytest.mark.parametrize("late", [3, 4])
def test_a_producer_whose_request_took_long_is_replaced(late: int) -> None:
    """The new producer comes before the next transaction. The present one continues."""
    transactions = Transactions()
    assert asked(transactions, [], late=late) == [BEGIN, *REQUEST_ORDER]
    assert asked(transactions, []) == [REPLACE, BEGIN, *REQUEST_ORDER]


def test_an_abort_that_took_long_is_followed_by_another_producer() -> None:
    """A late copy of the abort would roll back half of the rewritten records."""
    made = asked(Transactions(), [DONE, DONE, DONE, REFUSED], late=4)
    assert made == [BEGIN, WRITE, FLUSH, OFFSETS, ABORT, REPLACE, BEGIN, *REQUEST_ORDER]


def test_a_producer_with_a_refused_record_is_replaced() -> None:
    """The transaction ends before any further request."""
    made = asked(Transactions(), [DONE, DONE, TAKEN_BACK])
    assert made == [BEGIN, WRITE, FLUSH, REPLACE, BEGIN, *REQUEST_ORDER]

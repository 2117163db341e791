"""The audit of an end-to-end run finds lost, repeated and wrong orders, and missing dead letters."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.e2e.inside.findings import Findings
from tests.e2e.inside.orders import Orders
from tests.e2e.inside.tally import ExpectedOutput, MessagePlace, SinkRecord, Tally
from tests.e2e.inside.words import Words

Records = list[tuple[int, dict[str, Any]]]
"""The offset of the message, and the sink's record."""

TEA = {"name": "tea", "price": "3.20", "count": 2}
MESSAGES = [
    {"id": "o-0", "customer": {"name": "Ann", "country": "DE"}, "items": [TEA], "coupon": None},
    {
        "id": "o-1",
        "customer": {"name": "Ben", "country": None},
        "items": [TEA, TEA],
        "coupon": {"off": "2.80"},
    },
    {
        "id": "o-2",
        "customer": {"name": "Ann", "country": "NO"},
        "items": [TEA],
        "coupon": {"off": "9.99"},
    },
    {
        "id": "p-3",
        "customer": {"name": "Ann", "country": "DE"},
        "items": [{**TEA, "price": "3,20"}],
        "coupon": None,
    },
    {"id": "o-4", "customer": {"name": "Ann", "country": "FR"}, "items": [TEA], "coupon": None},
]
POISON = 3
SINK: Records = [
    (0, {"id": "o-0", "customer": "Ann", "amount": "7.62", "orders": 1, "total": "7.62"}),
    (1, {"id": "o-1", "customer": "Ben", "amount": "10.00", "orders": 1, "total": "10.00"}),
    (4, {"id": "o-4", "customer": "Ann", "amount": "7.68", "orders": 2, "total": "15.30"}),
    (2, {"id": "o-2", "customer": "Ann", "amount": "0.00", "orders": 3, "total": "15.30"}),
]
LETTERS = [
    {
        "topic": "orders.check",
        "partition": 1,
        "offset": 9,
        "value": {"partition": 0, "offset": POISON},
    }
]


def output(offset: int, value: dict[str, Any]) -> SinkRecord:
    """Return the output of the message at that offset, 5 s after the first message."""
    place = {"topic": "orders", "partition": "0", "offset": str(offset)}
    headers = {f"kstorm-source-{name}": text.encode() for name, text in place.items()}
    return SinkRecord(json.dumps(value).encode(), headers, 15_000)


def letter(found: dict[str, Any]) -> bytes:
    """Return a dead letter in the topology's format. A bolt's letter has the tuple."""
    if isinstance(found.get("value"), dict):
        content = json.dumps({"stream": "default", "values": found["value"]}).encode()
        found = {**found, "value": base64.b64encode(content).decode()}
    return json.dumps(found).encode()


def audit(sink: Records = SINK, letters: list[dict[str, Any]] = LETTERS) -> Findings:
    tally = Tally(Orders())
    for offset, message in enumerate(MESSAGES):
        tally.add_message(
            MessagePlace("orders", 0, offset), json.dumps(message).encode(), 10_000 + 100 * offset
        )
    for offset, record in sink:
        tally.take_output(output(offset, record))
    for found in letters:
        tally.take_letter(letter(found))
    return tally.findings()


def faults(**what: Any) -> list[str]:
    return list(audit(**what).faults("orders"))


def changed(offset: int, **fields: Any) -> Records:
    """Return the sink with a changed record of one message."""
    return [(at, {**record, **fields} if at == offset else record) for at, record in SINK]


def test_complete_sink_has_no_faults() -> None:
    found = audit()
    assert list(found.faults("orders")) == []
    assert (found.messages, found.due, found.letters) == (5, 4, 1)
    assert found.truth == {"Ann": 1530, "Ben": 1000}
    assert found.slowest == [(10.0, 15.0)]
    assert Findings.from_json(found.to_json()) == found


def test_lost_order_is_found() -> None:
    """Each order is tried. The totals show a gap too."""
    for offset, record in SINK:
        found = audit([one for one in SINK if one[0] != offset])
        assert (found.lost, found.some_lost) == (1, [f"orders-0-{offset}"])
        assert any(record["customer"] in fault for fault in found.wrong)


def test_repeated_order_is_found() -> None:
    """It is an exact copy, or was counted twice with another total."""
    found = audit([*SINK, SINK[1]])
    assert (found.copies, found.wrong, found.lost) == ({"15": 1}, [], 0)
    assert faults(sink=[*SINK, SINK[1]]) == [
        "1 orders were written again, although the topology is processed exactly once"
    ]
    found = audit([*SINK, (1, {**SINK[1][1], "orders": 2, "total": "20.00"})])
    assert found.copies == {"15": 1}
    assert found.wrong == ["Ben's 1 orders cost 10.00, and the last total is 20.00"]


@pytest.mark.parametrize(
    ("sink", "why"),
    [
        (changed(4, total="15.31"), "Ann's total of 2 orders is 15.31, and should be 7.62 + 7.68"),
        (changed(2, total="15.31"), "Ann's 3 orders cost 15.30, and the last total is 15.31"),
        (
            changed(1, amount="10.01", total="10.01"),
            "Ben's 1 orders cost 10.00, and the last total is 10.01",
        ),
        (changed(1, amount="10.01"), "of orders-0-1 it says"),
        (changed(1, customer="Ann"), "of orders-0-1 it says"),
        (changed(1, id="o-7"), "of orders-0-1 it says"),
        (changed(4, orders=1), "Ann has two totals of 1 orders: 7.62 and 15.30"),
    ],
)
def test_wrong_total_is_found(sink: Records, why: str) -> None:
    assert any(why in fault for fault in audit(sink).wrong)


def test_output_of_no_message_is_found() -> None:
    """An output of a bad message is found too, and one without headers or without JSON."""
    for strange in (output(POISON, SINK[0][1]), output(77, SINK[0][1])):
        tally = Tally(Orders())
        tally.add_message(
            MessagePlace("orders", 0, POISON), json.dumps(MESSAGES[POISON]).encode(), 0
        )
        for one in (strange, strange._replace(headers={}), strange._replace(value=b"?")):
            tally.take_output(one)
        assert tally.findings().strange == 3


SPOUTS = {"topic": "orders", "partition": 0, "offset": POISON}


@pytest.mark.parametrize(
    ("letters", "why"),
    [
        ([], "no dead letter is about orders-0-3, which cannot be processed"),
        ([*LETTERS, SPOUTS], "dead letters are wrong: one more about orders-0-3"),
        (
            [*LETTERS, {**SPOUTS, "offset": 0}],
            "dead letters are wrong: one about orders-0-0, which can be processed",
        ),
        (
            [SPOUTS, {"value": {"partition": 0, "offset": 0}}],
            "dead letters are wrong: one that does not say which message",
        ),
        (
            [SPOUTS, {**LETTERS[0], "value": {"id": "o-0"}}],
            "dead letters are wrong: one that does not say which message",
        ),
    ],
)
def test_wrong_dead_letters_are_found(letters: list[dict[str, Any]], why: str) -> None:
    (fault,) = faults(letters=letters)
    assert fault.startswith(why)


def test_dead_letter_of_the_spout_is_accepted() -> None:
    """It has the message's coordinates."""
    assert faults(letters=[SPOUTS]) == []


@pytest.mark.parametrize("make", [Orders, Words])
def test_run_is_complete_with_all_outputs_and_letters(make: Callable[[], ExpectedOutput]) -> None:
    """The audit waits until then."""
    truth = make()
    tally = Tally(truth)
    tally.add_message(MessagePlace("orders", 0, 0), json.dumps(MESSAGES[0]).encode(), 0)
    assert not tally.complete
    if isinstance(truth, Words):
        return
    tally.take_output(output(*SINK[0]))
    assert tally.complete
    tally.add_message(MessagePlace("orders", 0, 1), b"no JSON", 0)
    assert not tally.complete
    tally.take_letter(letter({**SPOUTS, "offset": 1}))
    assert tally.complete


def test_wrong_word_counts_are_found() -> None:
    """Each occurrence is a record.

    A count must equal the number of occurrences, and no dead letter is allowed.
    """
    tally = Tally(Words())
    tally.add_message(MessagePlace("sentences", 2, 5), b"the cow the moon", 0)
    for position, (word, count) in enumerate([("the", 1), ("cow", 1), ("the", 3)]):
        record = {"word": word, "count": count, "id": f"sentences-2-5-{position}"}
        tally.take_output(SinkRecord(json.dumps(record).encode(), {}, 7_000))
    tally.take_letter(letter({"topic": "sentences", "partition": 2, "offset": 5}))
    found = tally.findings()
    assert (found.lost, found.some_lost) == (1, ["sentences-2-5-3"])
    assert found.wrong == [
        "'moon' is counted 0 times, and occurs 1 times",
        "'the' is counted 3 times, and occurs 2 times",
    ]
    assert found.wrong_letters == ["one about sentences-2-5, which can be processed"]
    assert found.truth == {"the": 2, "cow": 1, "moon": 1}

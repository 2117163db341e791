"""Dead letters: the current ones, similar ones, and the selection of a command."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.dead_letters import DeadLetter, LetterError, encode_letter
from kstorm.operations.letters.selection import (
    LetterRecord,
    LetterSelection,
    NumberedLetter,
    current_letters,
    fingerprint,
    group_letters,
    kind_of,
    masked,
)


def letter(**changes: Any) -> DeadLetter:
    parts: dict[str, Any] = {
        "topology": "t",
        "component": "lines",
        "task": 1,
        "reason": "failed, and its retries are used up",
    }
    return DeadLetter(**{**parts, **changes})


def failed(message: str, **changes: Any) -> DeadLetter:
    parts = {
        "type": "ValueError",
        "message": message,
        "component": "price",
        "task": 4,
        "where": "price.py:41",
    }
    return letter(kind="failed", error=LetterError(**{**parts, **changes}))


def records(*letters: DeadLetter | None, key: bytes | None = b"k") -> list[LetterRecord]:
    return [
        LetterRecord(number, key, None if one is None else encode_letter(one))
        for number, one in enumerate(letters)
    ]


def test_last_letter_of_a_key_remains() -> None:
    """A message that was given up twice because of a crash appears once."""
    found = current_letters(records(letter(attempts=1), letter(attempts=2)))
    assert [(one.number, one.letter.attempts) for one in found.letters] == [(1, 2)]


def test_tombstone_discards_only_earlier_letters() -> None:
    assert current_letters(records(letter(), None)).letters == []
    assert [one.number for one in current_letters(records(letter(), None, letter())).letters] == [2]
    assert current_letters(records(None)).letters == []


def test_letters_of_kstorm_0_1_without_keys_all_remain() -> None:
    """Their only time is Kafka's."""
    old = b'{"topology":"t","component":"lines","task":1,"reason":"cannot be deserialized: ValueError: 7","value":"eA=="}'
    found = current_letters([LetterRecord(number, None, old, at=99) for number in range(3)])
    assert [one.number for one in found.letters] == [0, 1, 2]
    assert {(one.letter.at, one.letter.value, kind_of(one.letter)) for one in found.letters} == {
        (99, None, "undecodable")
    }


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("cannot be deserialized: ValueError: x", "undecodable"),
        ("a message of the queue 'q' cannot be emitted: None", "refused"),
        ("failed, and its retries are used up", "failed"),
        ("who knows", ""),
    ],
)
def test_kind_of_an_old_letter_is_inferred_from_its_reason(reason: str, kind: str) -> None:
    assert kind_of(letter(reason=reason)) == kind
    assert kind_of(letter(reason=reason, kind="timed_out")) == "timed_out"


def test_invalid_record_is_counted_and_replaces_no_letter() -> None:
    """Foreign programs can write under any key."""
    first = letter()
    found = current_letters([*records(first), LetterRecord(1, b"k", b"not mine")])
    assert (found.strange, [one.number for one in found.letters]) == (1, [0])


def test_message_contents_are_read_only_with_whole() -> None:
    full = letter(value=b"secret", key=b"k", headers=[("token", "secret")])
    assert b"secret" not in encode_letter(current_letters(records(full)).letters[0].letter)
    assert current_letters(records(full), whole=True).letters[0].letter.value == b"secret"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("no such product 4711", "no such product <n>"),
        ("price is -3.75, not 1,000.5", "price is -<n>, not <n>"),
        ("no user 'anna' in \"users\"", "no user <text> in <text>"),
        ("can't reach anna's host", "can't reach anna's host"),
        ("order 550e8400-e29b-41d4-a716-446655440000 is gone", "order <id> is gone"),
        ("commit 9fceb02d0ae598e9 of main", "commit <id> of main"),
        ("defaced facades", "defaced facades"),
        ("byte 0xff in position 9.", "byte <n> in position <n>."),
        ("b'\\xff\\xfe' is no text", "<text> is no text"),
    ],
)
def test_a_message_is_masked(message: str, expected: str) -> None:
    assert masked(message) == expected


@given(
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    st.uuids(),
    st.uuids(),
    st.text("abc xyz", max_size=9),
)
def test_numbers_ids_and_quotes_do_not_change_the_fingerprint(
    one: int, other: int, first: Any, second: Any, name: str
) -> None:
    """Letters with the same fingerprint belong to the same group."""
    assert fingerprint(failed(f"order {first} has {one} of 'x'")) == fingerprint(
        failed(f"order {second} has {other} of '{name}'")
    )


@pytest.mark.parametrize(
    "other",
    [
        failed("no such product", type="KeyError"),
        failed("no such product", component="stock"),
        failed("no such product", where="price.py:42"),
        failed("no such price"),
        letter(kind="timed_out", error=failed("no such product").error),
    ],
)
def test_kind_component_type_place_and_text_change_the_fingerprint(other: DeadLetter) -> None:
    assert fingerprint(other) != fingerprint(failed("no such product"))


def test_fingerprint_is_the_same_in_every_release() -> None:
    """Operators may have stored it."""
    assert fingerprint(failed("no such product 12")) == "d4878823"


def test_groups() -> None:
    """The largest group comes first. Each has its times and the number of its last letter."""
    alike = [NumberedLetter(number, failed(f"no such product {number}")) for number in (3, 4, 9)]
    times = [NumberedLetter(one.number, _at(one.letter, 1000 * one.number)) for one in alike]
    found = group_letters([NumberedLetter(1, letter()), *times])
    assert [(group.count, group.first, group.last, group.example) for group in found] == [
        (3, 3000, 9000, 9),
        (1, 0, 0, 1),
    ]
    assert (found[0].kind, found[0].component, found[0].type, found[0].where) == (
        "failed",
        "price",
        "ValueError",
        "price.py:41",
    )
    assert found[0].message == "no such product <n>"


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (LetterSelection(), {1, 2, 3}),
        (LetterSelection(kind="undecodable"), {1}),
        (LetterSelection(component="price"), {2}),
        (LetterSelection(component="lines"), {1, 2, 3}),
        (LetterSelection(since=2000), {2, 3}),
        (LetterSelection(match="product [0-9]+$"), {2}),
        (LetterSelection(match="secret"), set()),
        (LetterSelection(numbers=frozenset({1, 3, 99})), {1, 3}),
        (LetterSelection(group=fingerprint(failed("no such product 7"))[:4]), {2}),
        (LetterSelection(group="0000", since=1), set()),
    ],
)
def test_selection_requires_every_criterion(selection: LetterSelection, expected: set[int]) -> None:
    """The criteria do not include the message's content."""
    letters = [
        letter(reason="cannot be deserialized: ValueError: x", value=b"secret", at=1000),
        _at(failed("no such product 1"), 2000),
        letter(at=3000),
    ]
    numbered = [NumberedLetter(number, one) for number, one in enumerate(letters, 1)]
    assert {one.number for one in numbered if selection.has(one)} == expected


def test_invalid_expression_is_an_error() -> None:
    with pytest.raises(re.error):
        LetterSelection(match="(").has(NumberedLetter(1, letter()))


def _at(letter: DeadLetter, at: int) -> DeadLetter:
    return DeadLetter(
        **{name: getattr(letter, name) for name in letter.__struct_fields__ if name != "at"}, at=at
    )


def test_fields_of_a_new_letter_in_json() -> None:
    found = json.loads(encode_letter(failed("no such product 1")))
    assert found["error"] == {
        "type": "ValueError",
        "message": "no such product 1",
        "component": "price",
        "task": 4,
        "where": "price.py:41",
    }
    assert (found["kind"], "value" in found, "waiting_on" in found) == ("failed", False, False)

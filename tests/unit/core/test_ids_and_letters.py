"""Ids are fresh and never zero; dead letters are plain JSON."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.dead_letters import (
    DeadLetter,
    LetterError,
    decode_letter,
    encode_letter,
    key_of,
    roots_of,
)
from kstorm.core.ids import random_ids
from kstorm.core.wire import MAX_ID
from kstorm.errors import FrameError


def test_ids_are_fresh_64_bit_numbers() -> None:
    """Thousands of ids of two sources are distinct, not zero, and use all 64 bits."""
    first, second = random_ids(), random_ids()
    ids = {draw() for _ in range(20_000) for draw in (first, second)}
    assert len(ids) == 40_000
    assert min(ids) > 0
    assert max(ids) <= MAX_ID
    used = 0
    for id in ids:
        used |= id
    assert used == MAX_ID


text = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.builds(
        DeadLetter,
        topology=text,
        component=text,
        task=st.integers(0, 65_535),
        reason=text,
        topic=text,
        partition=st.integers(-1, 1000),
        offset=st.integers(-1, 2**62),
        key=st.none() | st.binary(),
        value=st.none() | st.binary(),
        attempts=st.integers(0, 1000),
        headers=st.lists(st.tuples(text, st.none() | text)),
        at=st.integers(0, 2**53),
        kind=text,
        error=st.none()
        | st.builds(
            LetterError,
            type=text,
            message=text,
            component=text,
            task=st.integers(0, 65_535),
            where=text,
        ),
        timestamp=st.integers(0, 2**53),
        row=st.integers(-1, 4000),
        roots=st.lists(text, max_size=100),
        waiting_on=text,
        version=text,
    )
)
def test_a_dead_letter_survives(letter: DeadLetter) -> None:
    """Any bytes can be encoded as JSON and decoded again."""
    data = encode_letter(letter)
    assert json.loads(data)["reason"] == letter.reason
    assert decode_letter(data) == letter


def test_a_letter_of_kstorm_0_1_is_read() -> None:
    """Letters with unknown fields are read too."""
    old = b'{"topology":"t","component":"c","task":1,"reason":"failed","offset":7,"value":"eA==","newer":[1]}'
    assert decode_letter(old) == DeadLetter(
        topology="t", component="c", task=1, reason="failed", offset=7, value=b"x"
    )


def test_the_key_is_the_place_and_who_gave_it_up() -> None:
    """A letter replaces the earlier one for the same place and component, and no other letter."""
    letter = partial(
        DeadLetter, topology="t", task=1, reason="r", topic="orders", partition=3, offset=17
    )
    assert key_of(letter(component="c"), "x") == b"orders/3/17/c"
    assert key_of(letter(component="c", attempts=9), "y") == b"orders/3/17/c"
    different = [
        letter(component="d"),
        letter(component="c", row=0),
        letter(component="c", row=1),
        letter(component="c", topic="counts", partition=-1, offset=-1),
    ]
    assert len({key_of(one, "x") for one in different}) == 4
    assert key_of(different[-1], "x") != key_of(different[-1], "y")


def test_roots_are_text() -> None:
    """JavaScript has no integers of 64 bits. An untracked tuple has no root."""
    assert roots_of([0, 255, MAX_ID]) == ["00000000000000ff", "f" * 16]


def test_invalid_dead_letter_is_refused() -> None:
    with pytest.raises(FrameError, match="are not a dead letter"):
        decode_letter(b'{"topology": 1}')

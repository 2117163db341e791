"""Ids are fresh and never zero; dead letters are plain JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstorm.core.dead_letters import DeadLetter, decode_letter, encode_letter
from kstorm.core.ids import random_ids
from kstorm.core.wire import MAX_ID
from kstorm.errors import FrameError


def test_ids_are_fresh_64_bit_numbers() -> None:
    """Two sources of many thousand ids: none twice, none zero, all 64 bits in use."""
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
    )
)
def test_a_dead_letter_survives(letter: DeadLetter) -> None:
    """Whatever bytes it carries, it is JSON and comes back as it was."""
    data = encode_letter(letter)
    assert json.loads(data)["reason"] == letter.reason
    assert decode_letter(data) == letter


def test_what_is_no_dead_letter() -> None:
    with pytest.raises(FrameError, match="no dead letter"):
        decode_letter(b'{"topology": 1}')

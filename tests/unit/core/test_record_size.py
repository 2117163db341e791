"""The size of a record in Kafka."""

from itertools import product

import pytest

from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.record_size import MAX_RECORD_BYTES, all_short, record_bytes, too_large


def test_a_record_has_the_length_that_a_broker_sees() -> None:
    """The expected size is counted by hand.

    It is 61 bytes before the records of a batch, then a length, attributes, two differences, and the
    pairs.
    """
    assert record_bytes(OutgoingRecord("t", 0, None)) == 61 + 1 + 3 + 1 + 1 + 1
    assert (
        record_bytes(OutgoingRecord("t", 0, b"value", b"key")) == 61 + 1 + 3 + (1 + 3) + (1 + 5) + 1
    )
    assert (
        record_bytes(OutgoingRecord("t", 0, "ü", None, [("name", b"v"), ("n", None)]))
        == 61 + 1 + 3 + 1 + 3 + 1 + 7 + 3
    )


@pytest.mark.parametrize("length", [63, 64, 8191, 8192, 1_048_575, 1_048_576])
def test_lengths_are_written_with_seven_bits_a_byte(length: int) -> None:
    """Lengths are signed, so the steps are at the powers of 64, 8192 and so on."""
    digits = 1 + sum(length >= step for step in (64, 8192, 1_048_576))
    body = 3 + 1 + digits + length + 1
    before = 1 + sum(body >= step for step in (64, 8192, 1_048_576))
    assert record_bytes(OutgoingRecord("t", 0, b"x" * length)) == 61 + before + body


@pytest.mark.parametrize(
    ("kind", "part"), list(product(("text", "bytes"), ("value", "key", "header")))
)
def test_record_above_the_client_limit_is_too_large(kind: str, part: str) -> None:
    """The limit applies to each part of a record. A record at the limit is accepted."""

    def made(size: int) -> OutgoingRecord:
        data = "x" * size if kind == "text" else b"x" * size
        if part == "header":
            return OutgoingRecord("t", 0, b"v", None, [("name", data)])
        return OutgoingRecord(
            "t", 0, data if part == "value" else b"v", data if part == "key" else None
        )

    spare = MAX_RECORD_BYTES - record_bytes(made(MAX_RECORD_BYTES // 2)) + MAX_RECORD_BYTES // 2
    assert too_large(made(spare)) == ""
    assert "16,777,217 bytes with key and headers, the limit is 16,777,216" in too_large(
        made(spare + 1)
    )


def test_characters_of_several_bytes_count_as_such() -> None:
    """A short text may have a long UTF-8 encoding."""
    assert too_large(OutgoingRecord("t", 0, "€" * (MAX_RECORD_BYTES // 3)))
    assert not too_large(OutgoingRecord("t", 0, "€" * (MAX_RECORD_BYTES // 4)))


def test_records_are_short_together() -> None:
    """Then the size of each record need not be computed, because none can be too large in UTF-8."""
    assert all_short(["key", None], [b"value", ""])
    many = ["x" * 1024] * 1024
    assert not all_short(many, [])
    assert all_short(many[1:], [None, "y" * 1023])
    assert too_large(OutgoingRecord("t", 0, "€" * (1024 * 1024 - 1))) == ""

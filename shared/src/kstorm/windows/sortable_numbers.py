"""Encode numbers as text that sorts in numeric order, for state keys."""

from typing import Final

_SHIFT: Final = 2**62
DIGITS: Final = 19
"""Length of the text."""


def encode_number(number: int) -> str:
    """Encode a number from -2**62 up to, but not including, 2**63."""
    return f"{number + _SHIFT:0{DIGITS}d}"


def decode_number(text: str) -> int:
    """Decode a text made by `text_of`."""
    return int(text) - _SHIFT

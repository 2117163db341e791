"""Numbers as texts whose order is theirs, for keys of a state."""

from typing import Final

_SHIFT: Final = 2**62
DIGITS: Final = 19
"""Characters of such a text."""


def text_of(number: int) -> str:
    """Of a number from -2**62 on, below 2**63."""
    return f"{number + _SHIFT:0{DIGITS}d}"


def number_of(text: str) -> int:
    """That of a text of `text_of`."""
    return int(text) - _SHIFT

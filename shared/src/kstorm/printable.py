"""Text that others have written, as it may be shown to a person.

A record, an exception's text or a name may hold characters that a terminal obeys: they move the cursor, set its title, answer as if
they had been typed, or turn the order of what is read around. Each is shown as JSON writes it, `\\u001b`, so JSON stays the same.
"""

import re
from typing import Final

_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, old and new (C1), but for tab and line feed
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what sets the direction of text
    "\u2028\u2029"  # ends of lines that few programs take for such
    "\ud800-\udfff]"  # halves of a letter, which no terminal can be given
)


def printable(text: str) -> str:
    """The text with every character that a terminal would obey shown instead; tabs and line feeds stay."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)

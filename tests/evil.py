"""Texts that a terminal would obey."""

import io

ESCAPES = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202egnp.exe \r\x08"
"""Sets the title, clears the screen, colours by a C1 character, turns the order around, writes over what is there."""

SHOWN = "\\u001b]0;owned\\u0007 \\u001b[2J \\u009b31m \\u202egnp.exe \\u000d\\u0008"
"""What is to be seen of it."""


class Screenful(io.StringIO):
    """Somebody's terminal."""

    def isatty(self) -> bool:
        return True

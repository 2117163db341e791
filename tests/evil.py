"""Texts with control characters that a terminal would execute."""

import io

ESCAPES = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202egnp.exe \r\x08"
"""Sets the title, clears the screen, colours by a C1 character, reverses the text, and overwrites
it."""

SHOWN = "\\u001b]0;owned\\u0007 \\u001b[2J \\u009b31m \\u202egnp.exe \\u000d\\u0008"
"""The text that a command may show instead."""


class Screenful(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True

"""Why a tree failed, in a few words: which task gave it up, and over what. It goes with the failure, by the acker, to the spout.

It is news, not state: an acker that restarts may lose it, and of the failures of one moment only some bring theirs.
"""

from pathlib import PurePath
from typing import Final

from msgspec import Struct

MOST_NOTES: Final = 100
"""In a frame."""
_MOST_TYPE, _MOST_MESSAGE, _MOST_PLACE = 60, 200, 80


class Note(Struct, array_like=True, frozen=True):
    """Who failed a tuple, and why."""

    task: int
    """The task that failed it, topology-wide."""
    type: str = ""
    """The name of what was raised; empty if the bolt itself failed the tuple."""
    message: str = ""
    where: str = ""
    """File and line of the user's code, as far as it is known: `join.py:41`."""


def note_of(task: int, error: BaseException) -> Note:
    """What to say of an error that was raised while a tuple was executed."""
    return Note(
        task, type(error).__name__[:_MOST_TYPE], _cut(str(error), _MOST_MESSAGE), _cut(place_of(error), _MOST_PLACE)
    )


def place_of(error: BaseException) -> str:
    """Where an error was raised: file and line, innermost; empty if it was not raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{PurePath(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def _cut(text: str, most: int) -> str:
    """Without halves of characters, which UTF-8 does not have."""
    text = text.encode(errors="backslashreplace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"

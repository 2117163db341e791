"""Notes: short descriptions of failures, sent along with fails."""

import sys
import sysconfig
from pathlib import PurePath
from types import FrameType
from typing import Final

from kstorm.errors import PermanentError
from kstorm.texts import encodable
from kstorm.topology import Note as Note

MOST_NOTES: Final = 100
"""Maximum number of notes per frame."""
_MOST_TYPE, _MOST_MESSAGE, _MOST_PLACE = 60, 200, 80
_LIBRARIES: Final = (
    sysconfig.get_path("stdlib"),
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    str(PurePath(__file__).parent.parent),
)


def note_of(task: int, error: BaseException) -> Note:
    """Describe an error raised while a tuple was executed."""
    return Note(
        task,
        type(error).__name__[:_MOST_TYPE],
        _cut(str(error), _MOST_MESSAGE),
        _cut(place_of(error), _MOST_PLACE),
        isinstance(error, PermanentError),
    )


def caller() -> str:
    """Return the file and line of the user code that is calling kstorm, or "" if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_LIBRARIES):
            return f"{PurePath(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def place_of(error: BaseException) -> str:
    """Return the file and line that raised an error, or "" if it was never raised.

    This is the innermost line outside of libraries and kstorm, or otherwise the innermost line of
    all. So the same error always has the same place.
    """
    own = innermost = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        innermost = f"{PurePath(file).name}:{trace.tb_lineno}"
        if not file.startswith(_LIBRARIES):
            own = innermost
        trace = trace.tb_next
    return own or innermost


def _cut(text: str, most: int) -> str:
    text = encodable(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"

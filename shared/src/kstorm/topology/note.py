"""Notes: short reasons for failed trees, sent with the failure through the acker to the spout."""

from msgspec import Struct


class Note(Struct, array_like=True, frozen=True):
    """The task that failed a tuple, and its error.

    A note is not persistent, so an acker that restarts may lose it. If many trees fail at once,
    only some carry a note.
    """

    task: int
    """Topology-wide ID of the task that failed the tuple."""
    type: str = ""
    """Type name of the exception. Empty if the bolt itself failed the tuple."""
    message: str = ""
    where: str = ""
    """File and line of the user's code, if known: `join.py:41`."""
    permanent: bool = False
    """True if a further attempt would fail in the same way (`PermanentError`). Older processes
    ignore this field."""

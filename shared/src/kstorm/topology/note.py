"""Why a tree failed, in a few words: which task gave it up, and over what. It goes with the failure, by the acker, to the spout."""

from msgspec import Struct


class Note(Struct, array_like=True, frozen=True):
    """Who failed a tuple, and why. It is news, not state: an acker that restarts may lose it, and of the failures of one moment
    only some bring theirs."""

    task: int
    """The task that failed it, topology-wide."""
    type: str = ""
    """The name of what was raised; empty if the bolt itself failed the tuple."""
    message: str = ""
    where: str = ""
    """File and line of the user's code, as far as it is known: `join.py:41`."""

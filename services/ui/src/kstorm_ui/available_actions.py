"""Actions that the pages offer, with the text that explains each before it is confirmed."""

from collections.abc import Sequence, Set
from typing import Final

from kstorm.operations.letters.reading import MOST_NUMBERS

MOST_NAMED: Final = MOST_NUMBERS
"""Dead letters that are listed before an action on them."""
_ON_TOPOLOGY: Final = ("activate", "deactivate", "drain", "scale")
_ON_LETTER: Final = ("replay", "edit", "discard")


def on_topology(actions: Set[str], *, active: bool) -> Sequence[str]:
    """Return the allowed actions on a topology that change something, in display order."""
    idle = {"activate"} if active else {"deactivate"}
    return [name for name in _ON_TOPOLOGY if name in actions - idle]


def on_letter(actions: Set[str]) -> Sequence[str]:
    """Return the allowed actions on one dead letter."""
    return [name for name in _ON_LETTER if name in actions]


def on_letters(actions: Set[str], group: str) -> Sequence[str]:
    """Return the allowed actions on many dead letters. Only one group can be discarded at once."""
    return [
        name for name in ("replay", "discard") if name in actions and (group or name != "discard")
    ]


def about(verb: str) -> str:
    """Return the description of an action."""
    return _ABOUT[verb]


_ABOUT: Final = {
    "activate": "Its spouts emit again.",
    "deactivate": (
        "Its spouts stop emitting, and trees in flight finish. "
        "It stays deactivated across restarts and upgrades until you activate it."
    ),
    "drain": (
        "It is deactivated, and the web UI waits until nothing is in flight. "
        "It stays deactivated until you activate it."
    ),
    "scale": (
        "Changes a component's number of pods, and its tasks move. "
        "Without pods, its input waits or times out. Pods in excess of its tasks stand by. "
        "The next helm upgrade restores the chart's number."
    ),
    "replay": (
        "The spout emits the selected messages again, at their own coordinates. "
        "If a message is then processed, its dead letter is discarded. "
        "If it fails again, a new dead letter takes the place of the old one."
    ),
    "edit": (
        "The spout emits the message again with this value, at its own coordinates. "
        "Its scheme reads the value only then. If the scheme cannot read it, or the message "
        "fails again, a new dead letter with the new value takes the place of this one. "
        "The old value is then in no dead letter. "
        "In a terminal, kstorm dlq edit makes the scheme read the value first."
    ),
    "discard": (
        "The selected dead letters are no longer shown. Kafka deletes their contents when it next "
        "compacts the topic. You cannot undo this."
    ),
}

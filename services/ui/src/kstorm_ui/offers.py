"""Actions that the pages offer, with the text that explains each before it is confirmed."""

from collections.abc import Sequence, Set
from typing import Final

from kstorm.cli.letters import MOST_NUMBERS

MOST_NAMED: Final = MOST_NUMBERS
"""Dead letters that are listed before an action on them."""
_ON_TOPOLOGY: Final = ("activate", "deactivate", "drain", "scale")
_ON_LETTER: Final = ("replay", "edit", "discard")


def on_topology(actions: Set[str]) -> Sequence[str]:
    """Return the allowed actions on a topology, in display order."""
    return [name for name in _ON_TOPOLOGY if name in actions]


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
        "Its spouts stop to emit, and what is in flight finishes. It stays so over restarts and upgrades, until it is activated."
    ),
    "drain": (
        "It is deactivated, and this page waits until nothing is in flight. It stays deactivated until it is activated."
    ),
    "scale": (
        "A component gets another number of pods, and its tasks move. With none, what waits for it waits, or times out; of more "
        "pods than tasks some stand by. The next helm upgrade writes the chart's number again."
    ),
    "replay": (
        "The spout emits what is meant again, at its own coordinates. A letter whose message is processed then is discarded; if "
        "that fails again, a new letter takes its place."
    ),
    "edit": (
        "The spout emits the message again with this value, at its own coordinates. Its scheme reads the value only then: what it "
        "cannot read, or what fails again, becomes a new letter with the new value. That takes the place of this one, whose value "
        "is in no letter then. In a terminal kstorm dlq edit has the scheme read it first."
    ),
    "discard": (
        "What is meant is no longer shown, and Kafka deletes what it holds when it next compacts the topic. Nothing brings it back."
    ),
}

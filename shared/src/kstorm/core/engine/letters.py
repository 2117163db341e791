"""The records of a process's dead letters."""

from collections.abc import Callable

from msgspec.structs import replace

from kstorm.core.dead_letters import (
    STRANGER,
    UNDECODABLE,
    DeadLetter,
    LetterError,
    LetterStamp,
    encode_letter,
    key_of,
)
from kstorm.core.engine.journal import Journal
from kstorm.core.engine.tenure import InputRecord
from kstorm.core.outgoing import OutgoingRecord
from kstorm.errors import TopologyError
from kstorm.texts import readable
from kstorm.topology import Topology


class LetterRecords:
    """Turns dead letters into records, and counts and logs them."""

    def __init__(self, topology: Topology, component: str, journal: Journal) -> None:
        self._topology, self._component, self._journal = topology, component, journal
        self.count = 0
        self.stamp: Callable[[], LetterStamp] = LetterStamp
        """Returns the process's fields for an outgoing letter."""

    def letter(self, record: InputRecord, reason: str, topic: str, partition: int) -> DeadLetter:
        """Return the letter of an unusable record of an internal topic."""
        return DeadLetter(
            topology=self._topology.name,
            component=self._component,
            task=0,
            reason=reason,
            topic=topic,
            partition=partition,
            offset=record.offset,
            key=record.key,
            value=record.value,
            kind=UNDECODABLE if record.undecodable else STRANGER,
        )

    def record(self, letter: DeadLetter) -> OutgoingRecord:
        """Count and log a letter, and return its record."""
        self.count += 1
        self._journal.warning(
            "dead_letter",
            reason=readable(letter.reason),
            topic=letter.topic,
            partition=letter.partition,
            offset=letter.offset,
        )
        stamp = self.stamp()
        letter = replace(letter, at=stamp.at, version=stamp.version, error=self._located(letter))
        key = key_of(letter, stamp.unique or str(self.count))
        return OutgoingRecord(self._topology.dead_letters_topic, 0, encode_letter(letter), key)

    def _located(self, letter: DeadLetter) -> LetterError | None:
        """Return the letter's error with its component filled in.

        The error's task determines the component. An error without a task belongs to the letter's
        own task.
        """
        error = letter.error
        if error is None or error.component:
            return error
        if not error.task:
            return replace(error, component=letter.component, task=letter.task)
        try:
            component, _ = self._topology.locate_task(error.task)
        except TopologyError:  # the note does not come from a task of this topology
            return error
        return replace(error, component=component)

"""Discard dead letters, for `kstorm dlq discard` and the web UI."""

from collections.abc import Sequence

from kstorm.errors import ControlError
from kstorm.operations.letters.reading import numbers_of
from kstorm.operations.letters.selection import NumberedLetter
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.admin import Admin
from kstorm.runtime.kafka.single_partition_topic import write_topic
from kstorm.topology.names import NamesOf


def check_discardable(topology: str, letters: Sequence[NumberedLetter]) -> None:
    """Raise `ControlError` naming the letters that cannot be discarded."""
    keyless = [one for one in letters if one.key is None]
    if keyless:
        raise ControlError(
            f"{numbers_of(keyless)} of {topology!r} cannot be discarded, because they have no key. "
            "They expire with their topic's retention"
        )


def discard_all(settings: Settings, topology: str, letters: Sequence[NumberedLetter]) -> str:
    """Discard the letters and return the count as text.

    Raises `BrokerError` if Kafka has not stored all tombstones.
    """
    write_topic(
        settings, NamesOf(topology).dead_letters_topic, [(one.key, None) for one in letters]
    )
    return f"{len(letters):,} discarded"


def when_deleted(settings: Settings, topology: str) -> str:
    """Return the end of a sentence about the letters' contents. Raises `BrokerError`."""
    topic = NamesOf(topology).dead_letters_topic
    if "compact" in Admin(settings).topic_settings([topic])[topic]["cleanup.policy"]:
        return "; Kafka deletes their contents when it next compacts the topic"
    return (
        f"; but Kafka keeps their contents, because the topic {topic!r} is not compacted: see "
        "docs/guides/dead-letters.md"
    )

"""Detect unfinished tuples of an exactly-once run when the topology is started with at-least-once
processing.

The input offsets of tuples that a bolt held or had to retry are already committed. Exactly-once
processing continues with these tuples. At-least-once processing would lose them, because it relies
on the spout to emit them again. So a bolt refuses to start while such tuples exist.
"""

from collections.abc import Mapping, Sequence

from kstorm.core.exactly_once.unfinished import check_changelog_pair, is_unfinished_key, read_pair
from kstorm.errors import LostInputError
from kstorm.runtime.base.settings import Settings
from kstorm.runtime.kafka.checkpoint_writer import Pair
from kstorm.runtime.store.changelog import Changelog


def read_unfinished(changelog: str, task: int, settings: Settings) -> Mapping[bytes, bytes]:
    """Return the pairs for unfinished tuples in a task's changelog. Blocks. Raises `BrokerError`.

    The changelog has few other records, because the bolt has no state.
    """
    found: dict[bytes, bytes] = {}

    def keep(changes: Sequence[Pair], reached: int) -> None:
        for key, value in changes:
            if value is None:
                found.pop(key, None)
            elif is_unfinished_key(key):
                found[key] = value

    log = Changelog(changelog, task, settings)
    facts = log.look()
    if facts.low < facts.high:
        log.read(facts.low, facts.high, check_changelog_pair, keep, lambda: False)
    return found


def unfinished_error(
    component: str, topic: str, changelog: str, task: int, left: Mapping[bytes, bytes]
) -> LostInputError:
    """Return the error that explains why a bolt's task cannot start, and the remedy."""
    rows = dict(read_pair(key, value) for key, value in left.items())
    count = sum(map(len, rows.values()))
    return LostInputError(
        f"task {task} of {component!r} has {count} unfinished tuples from the time when the "
        f"topology used exactly_once (frames at the offsets {sorted(rows)[:5]} of "
        f"{topic}[{task}], in the changelog {changelog!r}): with at_least_once they would be "
        "lost. Start the topology with exactly_once again, and change the guarantee after `kstorm "
        "drain` has found nothing in flight. To give the tuples up, delete that changelog, and "
        "the bolt's state with it"
    )

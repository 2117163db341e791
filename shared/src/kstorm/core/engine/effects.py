"""What an engine wants done, as values. A driver carries them out in the order in which they are given.

The driver decides nothing: it turns each into calls of its world (librdkafka, RocksDB, an event loop; or logs and disks in
memory), and answers those that have an answer with an event.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kstorm.core.engine.slot import Record
from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import Outgoing
from kstorm.core.tasks import Steps
from kstorm.errors import KstormError

Pair = tuple[bytes, bytes | None]
"""A key of a changelog and its value; None deletes it."""

Changes = Mapping[int, Sequence[Pair]]
"""What a checkpoint changes, by task."""

Positions = Mapping[tuple[str, int], int]
"""By topic and partition, the offset of the first message that was not taken yet."""


class Open(Struct, frozen=True):
    """Make ready what a task stands on: its part of the changelog's local copy, brought to the changelog's end; for a
    spout, the reading of its completions from their present end. Answered by `opened`."""

    task: int


class Abandon(Struct, frozen=True):
    """The task of an `Open` that is still unanswered has to leave: answer it soon, finished or not."""

    task: int


class Ready(Struct, frozen=True):
    """A task is prepared: from now on its records are wanted."""

    task: int


class Run(Struct, eq=False):
    """Run a piece of the user's code to its end, awaiting what it yields. Answered by `ran`."""

    steps: Steps


class Send(Struct, frozen=True):
    """Produce records. Each that the broker confirms is answered by `unit.delivered()`, and some time later by `confirmed`."""

    unit: Unit
    records: Sequence[Outgoing]


class Transact(Struct, eq=False):
    """Write changes to the changelog, produce records and commit input offsets, all or nothing, refused if the tasks are
    another process's by now. Answered by `committed`, or by `refused`, if nothing of it was written since records of sinks
    are refused for good. If it is refused otherwise or fails, the process ends."""

    changes: Changes
    offsets: Mapping[int, int]
    records: Sequence[Outgoing] = ()
    positions: Positions = {}
    """What a spout has read of its source, to be committed as the group's offsets there."""
    answer: Mapping[int, int] | None = None
    """The changelog's offset that the changes reach, by task; None until it is answered."""
    refused: Mapping[int, str] = {}
    """The numbers of the records that were refused, each with the reason."""


class Fetch(Struct, eq=False):
    """Read single records of a task's input, by their offsets. Answered by `fetched`."""

    task: int
    offsets: Sequence[int]
    answer: Sequence[Record] | None = None
    """Those that are still there; None until it is answered."""


class Keep(Struct, frozen=True):
    """Write changes that were committed to the local copy, with the changelog's offset that they reach, by task. It is done
    before any more of the user's code runs: what was changed is read from there from now on."""

    changes: Changes
    reached: Mapping[int, int]


class Commit(Struct, eq=False):
    """Commit input offsets outside of a transaction. If it `waits` it is answered by `committed`, even if it was refused."""

    offsets: Mapping[int, int]
    waits: bool = False
    answer: Mapping[int, int] | None = None
    """Empty when it is answered; None before."""


class Close(Struct, frozen=True):
    """Close what `Open` made ready."""

    task: int


class Release(Struct, frozen=True):
    """Nothing of a task is left here: another process may have it."""

    task: int


class End(Struct, frozen=True):
    """End the process now, or have it begin anew. Its tasks go on from what is committed."""

    error: KstormError


Effect = (
    Open | Abandon | Ready | Run | Send | Transact | Fetch | Keep | Commit | Close | Release | End
)

"""Effects: the actions that an engine requests, as values. A driver executes them in order.

The driver makes no decisions. It turns each effect into calls of its environment: librdkafka,
RocksDB and an event loop, or logs and disks in memory. If an effect has an answer, the driver
passes it back as an event.
"""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from kstorm.core.engine.tenure import InputRecord
from kstorm.core.engine.units import Unit
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.user_code import Steps
from kstorm.errors import KstormError

Pair = tuple[bytes, bytes | None]
"""Key and value of a changelog record. The value None deletes the key."""

Changes = Mapping[int, Sequence[Pair]]
"""Changelog records of a checkpoint, by task."""

Positions = Mapping[tuple[str, int], int]
"""By topic and partition, the offset of the first message that has not been taken."""


class Open(Struct, frozen=True):
    """Prepare a task's input and storage. Answered by `opened`.

    The task's part of the changelog's local copy is brought up to the end of the changelog. For a
    spout, completions are read from their current end.
    """

    task: int


class AbandonOpen(Struct, frozen=True):
    """Answer the task's pending `Open` soon, finished or not: the task has to leave."""

    task: int


class StartDelivery(Struct, frozen=True):
    """The task is prepared. From now on, deliver its records."""

    task: int


class RunUserCode(Struct, eq=False):
    """Run a piece of user code to its end, and await what it yields. Answered by `ran`."""

    steps: Steps


class Send(Struct, frozen=True):
    """Produce records. Each confirmation calls `unit.delivered()` and leads to a later `confirmed`."""

    unit: Unit
    records: Sequence[OutgoingRecord]


class Transact(Struct, eq=False):
    """Write changes to the changelog, produce records and commit input offsets in one transaction.

    Answered by `committed`. Answered by `refused`, with nothing written, if Kafka permanently
    rejects records of sinks. Kafka refuses the transaction if another process has taken over the
    tasks. On any other refusal or failure the process exits.
    """

    changes: Changes
    offsets: Mapping[int, int]
    records: Sequence[OutgoingRecord] = ()
    positions: Positions = {}
    """A spout's positions in its source, committed there as offsets of the group."""
    answer: Mapping[int, int] | None = None
    """The changelog offset reached by the changes, by task. None until answered."""
    refused: Mapping[int, str] = {}
    """Indexes of the rejected records, with the reason for each."""


class FetchRecords(Struct, eq=False):
    """Read single records of a task's input by offset. Answered by `fetched`."""

    task: int
    offsets: Sequence[int]
    answer: Sequence[InputRecord] | None = None
    """The records that still exist. None until answered."""


class ApplyToStore(Struct, frozen=True):
    """Write committed changes to the local copy, with the changelog offset that they reach, by
    task.

    The driver does this before any more user code runs, because user code reads the changes from
    there.
    """

    changes: Changes
    reached: Mapping[int, int]


class CommitOffsets(Struct, eq=False):
    """Commit input offsets outside a transaction.

    If `waits`, answered by `committed`, even if Kafka refused it.
    """

    offsets: Mapping[int, int]
    waits: bool = False
    answer: Mapping[int, int] | None = None
    """None until answered, then empty."""


class Close(Struct, frozen=True):
    """Close the task's input and storage, which `Open` prepared."""

    task: int


class Release(Struct, frozen=True):
    """Release the task. This process has no more data of it, and another process may take it."""

    task: int


class Terminate(Struct, frozen=True):
    """Exit the process now, or restart it in place. Its tasks continue from the last commit."""

    error: KstormError


Effect = (
    Open
    | AbandonOpen
    | StartDelivery
    | RunUserCode
    | Send
    | Transact
    | FetchRecords
    | ApplyToStore
    | CommitOffsets
    | Close
    | Release
    | Terminate
)

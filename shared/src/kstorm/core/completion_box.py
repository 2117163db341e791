"""Collects the completions of one process's acker tasks and packs them into frames."""

from kstorm.core.failure_notes import Note
from kstorm.core.outgoing import OutgoingRecord
from kstorm.core.wire import WRITERS, CompletionFrame, pack_ids
from kstorm.topology import Topology

_MAX_ROWS = 20_000  # roots in one record: 160 kB


class CompletionBox:
    """Completions from this process's acker tasks, buffered per spout task until drained."""

    def __init__(self, topology: Topology) -> None:
        self._format = topology.config.topology_frame_format
        self._write = WRITERS[self._format]
        self.places = {
            task: (topology.completions_topic(spout.id), partition)
            for spout in topology.spouts
            for partition, task in enumerate(topology.task_ids(spout.id))
        }
        """Spout task → topic and partition of its completions."""
        self.acked: dict[int, list[int]] = {}
        """Spout task → roots."""
        self.failed: dict[int, list[int]] = {}
        self.reset: dict[int, list[int]] = {}
        self.notes: dict[int, Note] = {}
        """Root → failure note, for some of `failed`."""
        self.undeliverable = 0
        """Dropped completions for tasks that belong to no spout, because the topology has changed
        since."""

    def drain(self) -> list[OutgoingRecord]:
        """Return the completion frames collected since the last call."""
        sends: list[OutgoingRecord] = []
        for task in {*self.acked, *self.failed, *self.reset}:
            news = [box.get(task, []) for box in (self.acked, self.failed, self.reset)]
            if task not in self.places:
                self.undeliverable += sum(map(len, news))
                continue
            topic, partition = self.places[task]
            for at in range(0, max(map(len, news)), _MAX_ROWS):
                acked, failed, reset = (roots[at : at + _MAX_ROWS] for roots in news)
                notes = (
                    {root: self.notes[root] for root in failed if root in self.notes}
                    if self.notes
                    else {}
                )
                frame = CompletionFrame(
                    self._format, 0, pack_ids(acked), pack_ids(failed), pack_ids(reset), notes
                )
                sends.append(OutgoingRecord(topic, partition, self._write(frame)))
        self.acked, self.failed, self.reset, self.notes = {}, {}, {}, {}
        return sends

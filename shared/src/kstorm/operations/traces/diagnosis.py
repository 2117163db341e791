"""Find out why messages of one spout are unfinished, for `kstorm why` and the web UI."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import Final

from kstorm.errors import AbsentError
from kstorm.introspection.outline import Outline
from kstorm.kafka.ports import Partition
from kstorm.operations.offsets.group_offsets import positions_of
from kstorm.operations.offsets.source_log import LogRange, open_log
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.operations.traces.fact_queries import TopologyFacts, facts_of, read_topology_facts
from kstorm.operations.traces.topic_log import TopicLog
from kstorm.operations.traces.tracer import Tracer
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.redaction import redact_quotes
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.verdict import Verdict
from kstorm.operations.trees.verdict import verdict_on as judge
from kstorm.runtime.zookeeper.nodes import OffsetNodes, open_nodes
from kstorm.runtime.zookeeper.topology_nodes import open_topologies

_AT_ONCE: Final = 64
"""Number of messages whose trees are read together. If the budget runs out, earlier batches are
complete."""


class Diagnosis:
    """Context manager. Its methods raise `KstormError` if Kafka or ZooKeeper does not respond."""

    def __init__(
        self,
        topology: Outline,
        spout: str,
        reading: SpoutOffsets,
        log: TopicLog,
        *,
        quotes: bool = True,
    ) -> None:
        """`quotes` includes error texts, which may quote the message."""
        self._topology, self._spout, self._reading, self._log = topology, spout, reading, log
        self._quotes = quotes
        self._tracer = Tracer(topology, log)

    def __enter__(self) -> "Diagnosis":
        reading, settings = self._reading, self._reading.settings
        login = settings.zookeeper_auth, settings.zookeeper_tls
        with ExitStack() as opened:  # closes ZooKeeper if Kafka does not respond
            with open_log(reading) as log:
                self._logs: Mapping[Partition, LogRange] = log.partitions()
            self._nodes: OffsetNodes = opened.enter_context(
                open_nodes(reading.zookeeper, reading.root_of, *login)
            )
            with open_topologies(settings.zookeeper, *login) as topologies:
                self._deactivated = topologies.deactivation(self._topology.name) is not None
            self._around: TopologyFacts = read_topology_facts(self._topology, settings, self._log)
            self._positions = (
                positions_of(settings, reading.group, list(self._logs)) if reading.group else {}
            )
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, message: MessageId) -> None:
        """Raise `AbsentError` if the message does not exist."""
        topic, partition, offset = message
        log = self._logs.get(Partition(topic, partition))
        if log is None:
            numbers = sorted(place.partition for place in self._logs if place.topic == topic)
            if not numbers:
                raise AbsentError(f"Kafka has no topic {topic!r}")
            raise AbsentError(
                f"topic {topic!r} has partitions {numbers[0]} to {numbers[-1]}, but no partition "
                f"{partition}"
            )
        if offset >= log.end:
            raise AbsentError(
                f"{topic}/{partition} ends at {log.end}: there is no message at {offset} yet"
            )

    def oldest(self) -> Iterator[MessageId]:
        """Yield the first unfinished message of each partition."""
        for place, log in self._logs.items():
            stored = self._nodes.read(place).stored
            offset = log.start if stored is None else max(stored.offset, log.start)
            if offset < log.end:
                yield MessageId(place.topic, place.partition, offset)

    def attempts(self, message: MessageId) -> Sequence[Tree]:
        """Return the trees of all attempts at a message, oldest first."""
        return self._tracer.attempts(message)

    def verdicts(self, messages: Iterable[MessageId]) -> Iterator[Verdict]:
        """Yield a verdict for each message. Trees of up to 64 messages are read together."""
        left = iter(messages)
        while together := list(islice(left, _AT_ONCE)):
            found = self._tracer.newest_attempts(together)
            yield from (self.verdict(message, found[message]) for message in together)

    def verdict(self, message: MessageId, trees: Sequence[Tree]) -> Verdict:
        """Return the verdict on a message, given the trees of its attempts, oldest first."""
        place = Partition(message.topic, message.partition)
        newest = None if trees else self._tracer.newest(*place)
        facts = facts_of(
            message,
            self._topology,
            self._spout,
            self._around,
            self._nodes,
            deactivated=self._deactivated,
            position=self._positions.get(place),
            emitted_to=newest,
            roots=[tree.root for tree in trees],
        )
        return (
            judge(message, trees, facts)
            if self._quotes
            else judge(message, *redact_quotes(trees, facts))
        )

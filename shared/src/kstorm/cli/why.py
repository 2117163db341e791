"""`kstorm why`: what a message waits for that is not done.

kstorm why sentences/3/10482 --topology hello:topology
kstorm why --oldest --topology hello                     # on Kubernetes: the oldest that is not done, of each partition
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Annotated

import msgspec
import typer

from kstorm.cli.options import with_options
from kstorm.cli.positions import positions_of
from kstorm.cli.reading import Reading
from kstorm.cli.source_log import Log, open_log
from kstorm.cli.tracing import Coordinates, Tracing, TracingOptions, open_tracing, parse_message, run_in_pod
from kstorm.errors import ConfigError
from kstorm.inspect.facts import Message
from kstorm.inspect.verdict import Verdict
from kstorm.inspect.verdict import why as judge
from kstorm.kafka.ports import Partition
from kstorm.printable import printable
from kstorm.runtime.tracing.facts import Surroundings, facts_of, look_around
from kstorm.runtime.zookeeper.nodes import OffsetNodes, open_nodes
from kstorm.runtime.zookeeper.topologies import open_topologies

_MOST_TUPLES = 5


@with_options(TracingOptions)
def why(
    options: TracingOptions,
    message: Coordinates = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="The oldest that is not done, of each partition.")] = False,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Says of a message why it is not done: who has it, or who lost it."""
    if oldest == (message is not None):
        raise ConfigError("give either a message, TOPIC/PARTITION/OFFSET, or --oldest")
    wanted = None if message is None else parse_message(message)
    flags = [*(["--oldest"] if oldest else []), *(["--json"] if json else [])]
    run_in_pod(options, "why", *flags, arguments=[] if message is None else [message])
    with open_tracing(options) as tracing:
        verdicts = list(_oldest(tracing, options) if wanted is None else _of(tracing, wanted, options))
    if json:
        print(msgspec.json.encode(verdicts).decode())
        return
    for verdict in verdicts:
        for line in lines(verdict):
            print(line)
    if not verdicts:
        print("nothing is left: the stored offsets are at the ends of all partitions")


def lines(verdict: Verdict) -> Iterator[str]:
    """What is printed of a verdict."""
    yield printable(f"{verdict.message}: {verdict.said}")
    for blocked in verdict.blocked[1 : 1 + _MOST_TUPLES]:
        yield printable(f"    {blocked.said}")
    if len(verdict.blocked) > 1 + _MOST_TUPLES:
        yield f"    and {len(verdict.blocked) - 1 - _MOST_TUPLES} more"


def _of(tracing: Tracing, message: Message, options: TracingOptions) -> Iterator[Verdict]:
    spout, reading = tracing.reading_of(message.topic, options.component)
    with _Asking(tracing, spout, reading) as asking:
        asking.check(message)
        yield asking.verdict(message)


def _oldest(tracing: Tracing, options: TracingOptions) -> Iterator[Verdict]:
    for spout, reading in tracing.readings(options.component).items():
        with _Asking(tracing, spout, reading) as asking:
            for message in asking.oldest():
                yield asking.verdict(message)


class _Asking:
    """Asks about the messages of one spout."""

    def __init__(self, tracing: Tracing, spout: str, reading: Reading) -> None:
        self._tracing, self._spout, self._reading = tracing, spout, reading
        self._open = ExitStack()

    def __enter__(self) -> "_Asking":
        reading, settings = self._reading, self._tracing.settings
        login = settings.zookeeper_auth, settings.zookeeper_tls
        with open_log(reading) as log:
            self._logs: Mapping[Partition, Log] = log.partitions()
        self._nodes: OffsetNodes = self._open.enter_context(open_nodes(reading.zookeeper, reading.root_of, *login))
        with open_topologies(settings.zookeeper, *login) as topologies:
            self._deactivated = topologies.deactivation(self._tracing.topology.name) is not None
        self._around: Surroundings = look_around(self._tracing.topology, settings, self._tracing.log)
        self._positions = positions_of(settings, reading.group, list(self._logs)) if reading.group else {}
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def check(self, message: Message) -> None:
        """Raises `ConfigError` if there is no such message."""
        topic, partition, offset = message
        log = self._logs.get(Partition(topic, partition))
        if log is None:
            numbers = sorted(place.partition for place in self._logs if place.topic == topic)
            raise ConfigError(f"topic {topic!r} has the partitions {numbers[0]} to {numbers[-1]}, but no {partition}")
        if offset >= log.end:
            raise ConfigError(f"{topic}/{partition} ends at {log.end}: there is no message at {offset} yet")

    def oldest(self) -> Iterator[Message]:
        """Of each partition the first message that is not done, if there is one."""
        for place, log in self._logs.items():
            stored = self._nodes.read(place).stored
            offset = log.start if stored is None else max(stored.offset, log.start)
            if offset < log.end:
                yield Message(place.topic, place.partition, offset)

    def verdict(self, message: Message) -> Verdict:
        """Why it is not done."""
        tracing, place = self._tracing, Partition(message.topic, message.partition)
        trees = tracing.tracer.attempts(message)
        newest = None if trees else tracing.tracer.newest(*place)
        facts = facts_of(
            message,
            tracing.topology,
            self._spout,
            self._reading.config,
            self._around,
            tracing.log,
            self._nodes,
            deactivated=self._deactivated,
            position=self._positions.get(place),
            emitted_to=newest,
        )
        return judge(message, trees, facts)

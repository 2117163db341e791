"""`kstorm offsets show|set|reset`: how far a KafkaSpout has come, and how to have it begin somewhere else.

    kstorm offsets show --topology hello:topology
    kstorm offsets reset --topology hello:topology --to 2026-03-01T08:00
    kstorm offsets set --root /kstorm --id hello --topic lines 0=1200 3=980

Offsets are changed only while no process reads the partitions, all that were asked for or none.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from kstorm.cli.reading import Place, Reading, find_reading
from kstorm.cli.source_log import Log, SourceLog, open_log
from kstorm.cli.target import Target, parse_pair, parse_target
from kstorm.errors import ConfigError
from kstorm.kafka.offsets import StoredOffset
from kstorm.kafka.ports import Partition
from kstorm.runtime.zookeeper_nodes import OffsetNode, OffsetNodes, open_nodes

app = typer.Typer(help="How far a KafkaSpout has come, as ZooKeeper has it.", no_args_is_help=True)

_Topology = Annotated[
    str | None,
    typer.Option("--topology", metavar="MODULE:ATTR", envvar="KSTORM_TOPOLOGY", help="The spout's topology."),
]
_Component = Annotated[
    str | None,
    typer.Option("--component", metavar="ID", help="The spout, if the topology has several that read Kafka."),
]
_Root = Annotated[str | None, typer.Option("--root", help="In place of a topology: the zk_root of its SpoutConfig,")]
_Id = Annotated[str | None, typer.Option("--id", help="the id of it,")]
_Topic = Annotated[str | None, typer.Option("--topic", help="and the topic.")]
_Bootstrap = Annotated[
    str | None, typer.Option("--bootstrap", metavar="HOST:PORT", help="Kafka; else KSTORM_BOOTSTRAP_SERVERS.")
]
_ZooKeeper = Annotated[
    str | None, typer.Option("--zookeeper", metavar="HOST:PORT", help="ZooKeeper; else KSTORM_ZOOKEEPER.")
]


@app.command()
def show(
    topology: _Topology = None,
    component: _Component = None,
    root: _Root = None,
    id: _Id = None,
    topic: _Topic = None,
    bootstrap: _Bootstrap = None,
    zookeeper: _ZooKeeper = None,
) -> None:
    """Shows each partition's stored offset, its log in Kafka, the lag, and who reads it."""
    reading = find_reading(Place(topology, component, root, id, topic, bootstrap, zookeeper))
    with _nodes(reading) as nodes:
        with open_log(reading) as log:
            logs = log.partitions()
        Console(markup=False, emoji=False, highlight=False).print(
            _table(reading, logs, {partition: nodes.read(partition) for partition in logs})
        )


@app.command("set")
def set_(
    pairs: Annotated[list[str], typer.Argument(metavar="PARTITION=OFFSET…", help="What to store.")],
    topology: _Topology = None,
    component: _Component = None,
    root: _Root = None,
    id: _Id = None,
    topic: _Topic = None,
    bootstrap: _Bootstrap = None,
    zookeeper: _ZooKeeper = None,
) -> None:
    """Stores an offset for each of some partitions; the spout reads on from there."""
    offsets = dict(map(parse_pair, pairs))
    reading = find_reading(Place(topology, component, root, id, topic, bootstrap, zookeeper))
    _move(reading, lambda logs: {_partition(logs, number): Target(offset) for number, offset in offsets.items()})


@app.command()
def reset(
    to: Annotated[
        str,
        typer.Option("--to", metavar="earliest|latest|TIME|OFFSET", help="Where to; TIME as 2026-03-01T08:00 or @ms."),
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this one; may be given again.")
    ] = None,
    topology: _Topology = None,
    component: _Component = None,
    root: _Root = None,
    id: _Id = None,
    topic: _Topic = None,
    bootstrap: _Bootstrap = None,
    zookeeper: _ZooKeeper = None,
) -> None:
    """Stores an offset for every partition: the log's start or end, the first at or after a time, or the one given."""
    target = parse_target(to)
    reading = find_reading(Place(topology, component, root, id, topic, bootstrap, zookeeper))

    def choose(logs: Mapping[Partition, Log]) -> Mapping[Partition, Target]:
        return dict.fromkeys(logs if not partition else [_partition(logs, number) for number in partition], target)

    _move(reading, choose)


def _move(reading: Reading, choose: Callable[[Mapping[Partition, Log]], Mapping[Partition, Target]]) -> None:
    """`choose` says where each partition that shall be moved is to go."""
    with _nodes(reading) as nodes, open_log(reading) as log:
        logs = log.partitions()
        wanted = _offsets(log, logs, choose(logs))
        changes = _changes(reading, nodes, logs, wanted)
        nodes.write(changes)
        log.show_as_group(wanted)
    for partition, (node, stored) in changes.items():
        before = "none" if node.stored is None else node.stored.offset
        print(f"{partition.topic}[{partition.partition}]: {before} → {stored.offset}")


def _nodes(reading: Reading) -> AbstractContextManager[OffsetNodes]:
    return open_nodes(reading.zookeeper, reading.root_of, reading.settings.zookeeper_auth)


def _partition(logs: Mapping[Partition, Log], number: int) -> Partition:
    """The partition of that number; raises `ConfigError` if there is none, or more than one."""
    topics = list(dict.fromkeys(partition.topic for partition in logs))
    if len(topics) > 1:
        raise ConfigError(
            f"the spout reads several topics ({', '.join(topics)}): name one by --root (with the spout's id behind it), "
            "--id and --topic (both the topic's name)"
        )
    partition = Partition(topics[0], number)
    if partition not in logs:
        raise ConfigError(f"topic {topics[0]!r} has the partitions 0 to {len(logs) - 1}, but no {number}")
    return partition


def _offsets(
    log: SourceLog, logs: Mapping[Partition, Log], targets: Mapping[Partition, Target]
) -> dict[Partition, int]:
    wanted: dict[Partition, int] = {}
    for partition, target in targets.items():
        if target.offset is not None:
            wanted[partition] = target.offset
        elif target.time is not None:
            wanted.update(log.offsets_at([partition], target.time))
        there = logs[partition]
        if target.offset is not None and not there.start <= target.offset <= there.end:
            raise ConfigError(
                f"{partition.topic}[{partition.partition}] has the offsets {there.start} to {there.end}: "
                f"{target.offset} is out of range, and nothing was changed"
            )
    return wanted


def _changes(
    reading: Reading, nodes: OffsetNodes, logs: Mapping[Partition, Log], wanted: Mapping[Partition, int]
) -> dict[Partition, tuple[OffsetNode, StoredOffset]]:
    """What is there, and what shall be. Who stored an offset stays its owner, for `ignore_zk_offsets`."""
    changes = {}
    for partition, offset in wanted.items():
        node = nodes.read(partition)
        owner = reading.topology if node.stored is None else node.stored.topology
        changes[partition] = node, StoredOffset.of(owner, partition, offset, logs[partition].leader)
    return changes


def _table(reading: Reading, logs: Mapping[Partition, Log], nodes: Mapping[Partition, OffsetNode]) -> Table:
    table = Table(title=f"{reading.config.topic}, read as {reading.config.zk_path}", title_justify="left")
    for name in ("partition", "stored", "log start", "log end", "lag"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("lock held by", overflow="fold")
    several = len({partition.topic for partition in logs}) > 1
    lags = []
    for partition, log in logs.items():
        stored = nodes[partition].stored
        lag = None if stored is None else max(0, log.end - max(stored.offset, log.start))
        lags.append(lag or 0)
        name = f"{partition.topic}[{partition.partition}]" if several else str(partition.partition)
        table.add_row(*_cells(name, stored and stored.offset, log.start, log.end, lag, nodes[partition].holder))
    table.caption = f"lag in all: {sum(lags)}"
    return table


def _cells(*values: Any) -> Sequence[str]:
    return ["–" if value is None else str(value) for value in values]

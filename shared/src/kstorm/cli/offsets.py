"""`kstorm offsets show|set|reset`: show a KafkaSpout's offsets, and move them.

    kstorm offsets show --topology hello:topology
    kstorm offsets reset --topology hello:topology --to 2026-03-01T08:00
    kstorm offsets show --topology hello                # on Kubernetes, in a pod
    kstorm offsets set --root /kstorm --id hello --topic lines 0=1200 3=980

The commands change offsets only while no process reads the partitions, and change either all or
none of them. For an exactly-once spout they also move the position in Kafka.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table

from kstorm.cli.json_output import Json, flags, print_json
from kstorm.cli.offset_moves import (
    apply_moves,
    changes_of,
    group_of,
    open_spout_log,
    open_spout_nodes,
)
from kstorm.cli.offset_options import OffsetOptions, find_spout_offsets, run_offsets_in_pod
from kstorm.cli.options import with_options
from kstorm.errors import ConfigError
from kstorm.kafka.ports import Partition
from kstorm.operations.offsets.group_offsets import positions_of
from kstorm.operations.offsets.source_log import LogRange, SourceLog
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.operations.offsets.targets import Target, parse_pair, parse_target
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.zookeeper.nodes import OffsetNode

app = typer.Typer(
    help="Show and move the offsets of a KafkaSpout in ZooKeeper.", no_args_is_help=True
)

_of_a_reading = with_options(OffsetOptions)


@app.command()
@_of_a_reading
def show(options: OffsetOptions, json: Json = False) -> None:
    """Show each partition's stored offset, its log in Kafka, the lag, and its reader."""
    run_offsets_in_pod(options, "show", *flags(json))
    reading = find_spout_offsets(options)
    with open_spout_nodes(reading) as nodes:
        with open_spout_log(reading) as log:
            logs = log.partitions()
        found = {partition: nodes.read(partition) for partition in logs}
        group = group_of(reading, found.values())
        positions = positions_of(reading.settings, group, list(logs)) if group else None
        if json:
            print_json(_rows(logs, found, positions))
            return
        Screen(markup=False, emoji=False, highlight=False).print(
            _table(reading, logs, found, positions)
        )
        for line in _what_counts(group, found, positions or {}):
            print(line)


@app.command("set")
@_of_a_reading
def set_(
    options: OffsetOptions,
    pairs: Annotated[
        list[str], typer.Argument(metavar="PARTITION=OFFSET…", help="Offsets to store.")
    ],
    json: Json = False,
) -> None:
    """Store offsets for the given partitions. The spout continues from there."""
    offsets = dict(map(parse_pair, pairs))
    run_offsets_in_pod(options, "set", *flags(json), arguments=pairs)
    reading = find_spout_offsets(options)
    command = f"kstorm offsets set {' '.join(pairs)}"
    _move(
        reading,
        lambda logs: {
            _partition(logs, number): Target(offset) for number, offset in offsets.items()
        },
        command,
        json,
    )


@app.command()
@_of_a_reading
def reset(
    options: OffsetOptions,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="earliest|latest|TIME|OFFSET",
            help="The new offset. TIME is 2026-03-01T08:00 or @ms.",
        ),
    ],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", help="Only this partition. May be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Store an offset for every partition.

    The offset is the start or the end of the log, the first one at or after a time, or a given
    number.
    """
    target = parse_target(to)
    run_offsets_in_pod(
        options,
        "reset",
        f"--to={to}",
        *(f"--partition={number}" for number in partition or ()),
        *flags(json),
    )
    reading = find_spout_offsets(options)

    def choose(logs: Mapping[Partition, LogRange]) -> Mapping[Partition, Target]:
        return dict.fromkeys(
            logs if not partition else [_partition(logs, number) for number in partition], target
        )

    _move(reading, choose, f"kstorm offsets reset --to {to}", json)


def _move(
    reading: SpoutOffsets,
    choose: Callable[[Mapping[Partition, LogRange]], Mapping[Partition, Target]],
    command: str,
    json: bool,
) -> None:
    """Move offsets to the targets that `choose` returns by partition. `command` is recorded in the
    audit topic."""
    with open_spout_nodes(reading) as nodes, open_spout_log(reading) as log:
        logs = log.partitions()
        wanted = _offsets(log, logs, choose(logs))
        changes = changes_of(reading, nodes, logs, wanted)
        apply_moves(reading, nodes, log, changes, command, json)


def _partition(logs: Mapping[Partition, LogRange], number: int) -> Partition:
    """Return the partition with this number.

    Raises `ConfigError` if it does not exist, or if the spout reads several topics.
    """
    topics = list(dict.fromkeys(partition.topic for partition in logs))
    if len(topics) > 1:
        raise ConfigError(
            f"the spout reads several topics ({', '.join(topics)}): select one with --root (its "
            "zk_root/id), --id and --topic (both the topic's name)"
        )
    partition = Partition(topics[0], number)
    if partition not in logs:
        raise ConfigError(
            f"topic {topics[0]!r} has partitions 0 to {len(logs) - 1}, but no partition {number}"
        )
    return partition


def _offsets(
    log: SourceLog, logs: Mapping[Partition, LogRange], targets: Mapping[Partition, Target]
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
                f"{partition} has the offsets {there.start} to "
                f"{there.end}: {target.offset} is out of range, and nothing was changed"
            )
    return wanted


def _what_counts(
    group: str, nodes: Mapping[Partition, OffsetNode], positions: Mapping[Partition, int]
) -> Iterator[str]:
    """Explain where an exactly-once spout continues if the stored offset and the position differ."""
    if not group:
        return
    differ = [
        (partition, node)
        for partition, node in nodes.items()
        if node.stored is not None
        and positions.get(partition, node.stored.offset) != node.stored.offset
    ]
    following = [
        partition.partition for partition, node in differ if node.stored and node.stored.group
    ]
    newer = [
        partition.partition for partition, node in differ if node.stored and not node.stored.group
    ]
    if following:
        yield (
            f"partitions {following}: the spout continues at its position, the offset of the group "
            f"{group!r} in Kafka; the stored offset follows it, at the oldest unfinished message"
        )
    if newer:
        yield (
            f"partitions {newer}: the spout continues at the stored offset, which is newer than "
            f"its position, the offset of the group {group!r} in Kafka"
        )


def _table(
    reading: SpoutOffsets,
    logs: Mapping[Partition, LogRange],
    nodes: Mapping[Partition, OffsetNode],
    positions: Mapping[Partition, int] | None,
) -> Table:
    table = Table(
        title=f"{reading.config.topic}, offsets in {reading.config.zk_path}", title_justify="left"
    )
    for name in (
        "partition",
        "stored",
        *(() if positions is None else ("position",)),
        "log start",
        "log end",
        "lag",
    ):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("lock held by", overflow="fold")
    several = len({partition.topic for partition in logs}) > 1
    lags = []
    for partition, log in logs.items():
        stored = nodes[partition].stored
        lag = None if stored is None else max(0, log.end - max(stored.offset, log.start))
        lags.append(lag or 0)
        name = str(partition) if several else str(partition.partition)
        position = () if positions is None else (positions.get(partition),)
        offset = None if stored is None else stored.offset
        table.add_row(
            *_cells(name, offset, *position, log.start, log.end, lag, nodes[partition].holder)
        )
    table.caption = f"total lag: {sum(lags)}"
    return table


def _rows(
    logs: Mapping[Partition, LogRange],
    nodes: Mapping[Partition, OffsetNode],
    positions: Mapping[Partition, int] | None,
) -> Sequence[Mapping[str, Any]]:
    rows = []
    for partition, log in logs.items():
        stored = nodes[partition].stored
        offset = None if stored is None else stored.offset
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "stored": offset,
                "position": (positions or {}).get(partition),
                "start": log.start,
                "end": log.end,
                "lag": None if offset is None else max(0, log.end - max(offset, log.start)),
                "holder": nodes[partition].holder,
            }
        )
    return rows


def _cells(*values: Any) -> Sequence[str]:
    return ["–" if value is None else str(value) for value in values]

"""`kstorm migrate offsets`: let a KafkaSpout continue where Storm's Kafka spout stopped.

kstorm migrate offsets --group storm-group --topology hello:topology
kstorm migrate offsets --node /lines/copy --topology hello:topology --yes
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from kazoo.client import KazooClient
from rich.table import Table

from kstorm.cli.json_output import Json, flags, print_json
from kstorm.cli.offset_moves import apply_moves, changes_of, open_spout_log, open_spout_nodes
from kstorm.cli.offset_options import OffsetOptions, find_spout_offsets, run_offsets_in_pod
from kstorm.cli.options import with_options
from kstorm.errors import ConfigError
from kstorm.operations.migration.storm_offsets import (
    GroupOffsets,
    NodeOffsets,
    StormOffsets,
    check_not_listed,
)
from kstorm.operations.migration.takeover import Takeover, offsets_at_rest, plan_takeover
from kstorm.operations.offsets.spout_offsets import SpoutOffsets
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.zookeeper.client import open_client

_COMMIT_SECS: Final = 35.0
"""Longer than storm-kafka-client's commit period, which is 30 s by default."""
_STATE_SECS: Final = 5.0
"""Longer than storm-kafka's `stateUpdateIntervalMs`, which is 2 s by default."""


@with_options(OffsetOptions)
def offsets(
    options: OffsetOptions,
    group: Annotated[
        str | None,
        typer.Option(
            "--group", help="The consumer group of Storm's spout, if it is storm-kafka-client's."
        ),
    ] = None,
    node: Annotated[
        str | None,
        typer.Option(
            "--node",
            metavar="/ZKROOT/ID",
            help="The ZooKeeper node of Storm's spout, if it is storm-kafka's.",
        ),
    ] = None,
    storm_zookeeper: Annotated[
        str | None,
        typer.Option(
            "--storm-zookeeper", help="Storm's ZooKeeper. Default: that of kstorm's spout."
        ),
    ] = None,
    storm_root: Annotated[
        str, typer.Option("--storm-root", help="Storm's storm.zookeeper.root.")
    ] = "/storm",
    watch: Annotated[
        float | None,
        typer.Option(
            "--watch",
            min=0,
            metavar="SECONDS",
            help="Refuse if Storm's offsets change within this time. It should exceed the time "
            "between two commits. Default: 35 with --group, 5 with --node.",
        ),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Store the offsets. Without it, only show them.")
    ] = False,
    json: Json = False,
) -> None:
    """Let a KafkaSpout continue at the offsets where Storm's Kafka spout stopped.

    Without --yes the command only shows what it would store. It refuses if Storm or the kstorm
    spout still runs, and if an offset of Storm cannot be used.
    """
    if (group is None) == (node is None):
        raise ConfigError(
            "give --group with the consumer group of storm-kafka-client, or --node with the "
            "ZooKeeper node of storm-kafka"
        )
    given = {
        "group": group,
        "node": node,
        "storm-zookeeper": storm_zookeeper,
        "storm-root": storm_root,
        "watch": watch,
    }
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    sure = ["--yes"] if yes else []
    run_offsets_in_pod(options, "offsets", *words, *sure, *flags(json), command="migrate")
    reading = find_spout_offsets(options)
    command = f"kstorm migrate offsets {f'--group {group}' if group else f'--node {node}'}"
    with (
        open_spout_log(reading) as log,
        open_spout_nodes(reading) as nodes,
        _open_source(reading, group, node, storm_zookeeper) as (source, client),
    ):
        logs = log.partitions()
        topic = _topic_of(reading, [partition.topic for partition in logs])
        secs = (_STATE_SECS if group is None else _COMMIT_SECS) if watch is None else watch
        storm = offsets_at_rest(source, topic, secs)
        ids = {each.topology_id for each in storm.values()}
        check_not_listed(client, storm_root, ids, reading.settings.zookeeper_auth)
        found = {partition: nodes.read(partition) for partition in logs}
        plan = plan_takeover(storm, logs, found)
        wanted = {each.partition: each.new for each in plan}
        changes = changes_of(reading, nodes, logs, wanted, reading.topology)
        nodes.check_free(changes)
        if not json:
            _print(source, topic, plan)
        if yes:
            apply_moves(reading, nodes, log, changes, command, json)
        elif json:
            print_json([_row(each) for each in plan])
        else:
            print("nothing was changed: give --yes to store these offsets")


@contextmanager
def _open_source(
    reading: SpoutOffsets, group: str | None, node: str | None, zookeeper: str | None
) -> Iterator[tuple[StormOffsets, KazooClient]]:
    """Open Storm's offsets, and its ZooKeeper."""
    settings = reading.settings
    with ExitStack() as opened:
        client = opened.enter_context(
            open_client(
                zookeeper or reading.zookeeper, settings.zookeeper_auth, settings.zookeeper_tls
            )
        )
        if node is not None:
            yield NodeOffsets(client, node, settings.zookeeper_auth), client
        else:
            yield GroupOffsets(settings, group or ""), client


def _topic_of(reading: SpoutOffsets, topics: Sequence[str]) -> str:
    different = sorted(set(topics))
    if len(different) != 1:
        raise ConfigError(
            f"the spout reads several topics ({', '.join(different)}): select one with --root "
            f"{reading.config.zk_path}, and --id and --topic, which are both the topic's name"
        )
    return different[0]


def _print(source: StormOffsets, topic: str, plan: Sequence[Takeover]) -> None:
    table = Table(title=f"{topic}, offsets of Storm in {source.place}", title_justify="left")
    for name in ("partition", "Storm", "kstorm now", "kstorm then", "messages left"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in plan:
        cells = (each.partition.partition, each.storm, each.now, each.new, each.left)
        table.add_row(*("–" if cell is None else str(cell) for cell in cells))
    table.caption = f"total of messages left: {sum(each.left for each in plan)}"
    Screen(markup=False, emoji=False, highlight=False).print(table)
    behind = [each for each in plan if each.now is not None and each.now > each.new]
    for each in behind:
        print(
            f"{each.partition}: kstorm is already at {each.now}, and would process "
            f"{(each.now or 0) - each.new} messages again"
        )


def _row(each: Takeover) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(each).items() if name != "partition"},
        "topic": each.partition.topic,
        "partition": each.partition.partition,
    }

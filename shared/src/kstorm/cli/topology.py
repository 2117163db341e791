"""`kstorm topology list|describe|status`: list and inspect topologies, here and on Kubernetes.

    kstorm topology list --all-namespaces
    kstorm topology describe wordcount
    kstorm topology status wordcount --watch

These commands change nothing.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.options import with_options
from kstorm.cli.place_options import RunOptions, workload_name
from kstorm.cli.status import WINDOW_SECS, Watch, Window, show_status
from kstorm.cli.target_options import Name
from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster, is_named, missing_file, open_cluster
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.places import LocalRun, OnKubernetes
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.run_files import RunningTopology, find_runs, runs_folder

app = typer.Typer(
    help="List and inspect topologies, on this machine and on Kubernetes.", no_args_is_help=True
)


class ListFormat(Enum):
    TABLE = "table"
    JSON = "json"


_Output = Annotated[
    ListFormat, typer.Option("--output", "-o", help="Print a table or JSON, as with --json.")
]


@app.command("list")
@with_options(RunOptions)
def list_(
    options: RunOptions,
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List the topologies of all namespaces.")
    ] = False,
    output: _Output = ListFormat.TABLE,
    json: Json = False,
) -> None:
    """List the topologies on this machine and on Kubernetes."""
    far = options.choice.names_cluster or everywhere
    rows = [] if far else [_local_row(*each) for each in find_runs(options.runs or runs_folder())]
    cluster, trouble = None, ""
    if far or (options.runs is None and is_named()):
        try:
            cluster = open_cluster(options.namespace, options.context)
            rows += _rows(cluster.workloads(everywhere))
        except ControlError as error:
            # The runs on this machine are listed even if the cluster is away.
            if not rows:
                raise
            trouble = str(error)
    if json or output is ListFormat.JSON:
        print_json(rows, pretty=True)
    elif rows:
        _console().print(_list_table(rows))
    else:
        print(_nothing(options, cluster, everywhere))
    if trouble:
        print(f"kstorm: {trouble}", file=sys.stderr)
        raise typer.Exit(2)


@app.command()
@with_options(RunOptions)
def describe(
    options: RunOptions, name: Name, output: _Output = ListFormat.TABLE, json: Json = False
) -> None:
    """Show a topology's workloads, images, autoscalers and pods, or its processes here."""
    name = workload_name(name)
    place = options.find(name)
    if isinstance(place, LocalRun):
        _describe_run(place, json or output is ListFormat.JSON)
        return
    assert isinstance(place, OnKubernetes)
    cluster = place.open()
    found = [
        {
            "workload": workload,
            "autoscaler": cluster.autoscaler(workload),
            "pods": cluster.pods(workload),
        }
        for workload in find_topology(cluster, name)
    ]
    if json or output is ListFormat.JSON:
        print_json(found, pretty=True)
        return
    first: Any = found[0]["workload"]
    release = f", release {first.release}" if first.release else ""
    chart = f" ({first.chart})" if first.chart else ""
    _console().print(f"{name}: namespace {first.namespace}{release}{chart}")
    for each in found:
        _console().print(_description(each))


@app.command()
@with_options(RunOptions)
def status(
    options: RunOptions,
    name: Name,
    watch: Watch = False,
    window: Window = WINDOW_SECS,
    output: _Output = ListFormat.TABLE,
    json: Json = False,
) -> None:
    """Show the status of each component of a topology, and what slows it down."""
    show_status(options, name, watch=watch, window=window, json=json or output is ListFormat.JSON)


def _local_row(folder: Path, run: RunningTopology) -> dict[str, Any]:
    return {
        "topology": run.name,
        "namespace": "",
        "release": "",
        "components": list(run.wanted_by_component),
        "pods": len(run.workers),
        "pods_ready": None,
        "place": str(folder),
    }


def _rows(workloads: Sequence[Workload]) -> Iterator[dict[str, Any]]:
    by_topology: dict[tuple[str, str, str], list[Workload]] = {}
    for each in workloads:
        by_topology.setdefault((each.namespace, each.topology, each.release), []).append(each)
    for (where, topology, release), of_it in by_topology.items():
        yield {
            "topology": topology,
            "namespace": where,
            "release": release,
            "components": [workload.component for workload in of_it],
            "pods": sum(workload.replicas for workload in of_it),
            "pods_ready": sum(workload.ready for workload in of_it),
        }


def _nothing(options: RunOptions, cluster: Cluster | None, everywhere: bool) -> str:
    here = f"no topology runs from {options.runs or runs_folder()}"
    if cluster is None:
        return f"{here}, and {missing_file()}; `kstorm dev` starts one"
    where = "any namespace" if everywhere else f"the namespace {cluster.namespace}"
    return f"there is no topology in {where}"


def _describe_run(place: LocalRun, json: bool) -> None:
    run = place.running
    if json:
        print_json(run, pretty=True)
        return
    _console().print(
        f"{run.name}: {place}\nKafka {run.bootstrap}, ZooKeeper {run.zookeeper}", soft_wrap=True
    )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("process", "component", "address", "log"):
        table.add_column(column, overflow="fold")
    for worker in run.workers:
        table.add_row(worker.name, worker.component, worker.url, worker.log)
    _console().print(table)


def _console() -> Screen:
    return Screen(markup=False, emoji=False, highlight=False)


def _list_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("topology", "namespace", "release", "ready", "components"):
        table.add_column(name, overflow="fold")
    for row in rows:
        ready = "–" if row["pods_ready"] is None else row["pods_ready"]
        table.add_row(
            row["topology"],
            row["namespace"] or row["place"],
            row["release"],
            f"{ready}/{row['pods']}",
            ", ".join(row["components"]),
        )
    return table


def _description(found: Mapping[str, Any]) -> RenderableType:
    workload: Workload = found["workload"]
    scaler = f", scaled by {found['autoscaler']}" if found["autoscaler"] is not None else ""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("  pod", "phase", "ready", "restarts", "node"):
        table.add_column(name, overflow="fold")
    for pod in found["pods"]:
        table.add_row(
            f"  {pod.name}",
            pod.trouble or pod.phase,
            "yes" if pod.ready else "no",
            str(pod.restarts),
            pod.node,
        )
    head = (
        f"\n{workload.kind} {workload.component}: {workload}, {workload.replicas} "
        f"wanted{scaler}\n  {workload.image}"
    )
    return Group(Text(printable(head)), *([table] if found["pods"] else []))

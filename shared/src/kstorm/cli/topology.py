"""`kstorm topology list|describe|status`: list and inspect topologies on a Kubernetes cluster.

    kstorm topology list --all-namespaces
    kstorm topology describe wordcount
    kstorm topology status wordcount --watch

These commands change nothing.
"""

import time
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kstorm.cli.target_options import Context, Name, Namespace
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.kubernetes.component_status import ComponentStatus, component_statuses
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.printable import printable
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.service.status_counters import format_error, format_seconds

app = typer.Typer(
    help="List and inspect the topologies on a Kubernetes cluster.", no_args_is_help=True
)

_LOOK_SECS: Final = 2.0


class Output(Enum):
    TABLE = "table"
    JSON = "json"


_Output = Annotated[Output, typer.Option("--output", "-o", help="Print a table or JSON.")]


@app.command("list")
def list_(
    everywhere: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="List the topologies of all namespaces.")
    ] = False,
    output: _Output = Output.TABLE,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """List the topologies."""
    cluster = open_cluster(namespace, context)
    by_topology: dict[tuple[str, str, str], list[Workload]] = {}
    for each in cluster.workloads(everywhere):
        by_topology.setdefault((each.namespace, each.topology, each.release), []).append(each)
    rows = [
        {
            "topology": topology,
            "namespace": where,
            "release": release,
            "components": [workload.component for workload in workloads],
            "pods": sum(workload.replicas for workload in workloads),
            "pods_ready": sum(workload.ready for workload in workloads),
        }
        for (where, topology, release), workloads in by_topology.items()
    ]
    if output is Output.JSON:
        _print_json(rows)
    elif rows:
        _console().print(_list_table(rows))
    else:
        print(
            "there is no topology in "
            f"{'any namespace' if everywhere else f'the namespace {cluster.namespace}'}"
        )


@app.command()
def describe(
    name: Name, output: _Output = Output.TABLE, namespace: Namespace = None, context: Context = None
) -> None:
    """Show a topology's workloads, images, autoscalers and pods."""
    cluster = open_cluster(namespace, context)
    found = [
        {
            "workload": workload,
            "autoscaler": cluster.autoscaler(workload),
            "pods": cluster.pods(workload),
        }
        for workload in find_topology(cluster, name)
    ]
    if output is Output.JSON:
        _print_json(found)
        return
    first: Any = found[0]["workload"]
    release = f", release {first.release}" if first.release else ""
    chart = f" ({first.chart})" if first.chart else ""
    _console().print(f"{name}: namespace {first.namespace}{release}{chart}")
    for each in found:
        _console().print(_description(each))


@app.command()
def status(
    name: Name,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every two seconds, until Ctrl-C.")
    ] = False,
    output: _Output = Output.TABLE,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Show the status of each component of a topology."""
    cluster = open_cluster(namespace, context)
    if not watch:
        _print_status(cluster, name, output)
        return
    try:
        if output is Output.JSON:
            _watch_json(cluster, name)
        else:
            _watch_table(cluster, name)
    except KeyboardInterrupt:
        return


def _print_status(cluster: Cluster, name: str, output: Output) -> None:
    found = component_statuses(cluster, find_topology(cluster, name))
    if output is Output.JSON:
        _print_json(found)
    else:
        _console().print(_status_view(found))


def _watch_json(cluster: Cluster, name: str) -> None:
    while True:
        print(
            msgspec.json.encode(component_statuses(cluster, find_topology(cluster, name))).decode(),
            flush=True,
        )
        time.sleep(_LOOK_SECS)


def _watch_table(cluster: Cluster, name: str) -> None:
    with Live(console=_console(), auto_refresh=False) as live:
        while True:
            live.update(
                _status_view(component_statuses(cluster, find_topology(cluster, name))),
                refresh=True,
            )
            time.sleep(_LOOK_SECS)


def _print_json(found: object) -> None:
    print(msgspec.json.format(msgspec.json.encode(found)).decode())


def _console() -> Screen:
    return Screen(markup=False, emoji=False, highlight=False)


def _list_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("topology", "namespace", "release", "ready", "components"):
        table.add_column(name, overflow="fold")
    for row in rows:
        ready = f"{row['pods_ready']}/{row['pods']}"
        table.add_row(
            row["topology"], row["namespace"], row["release"], ready, ", ".join(row["components"])
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


def _status_view(components: Sequence[ComponentStatus]) -> RenderableType:
    """Format the status in 80 columns, with problems below the table."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("component", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    for name in ("pods", "tasks", "acked", "failed", "pending", "p50", "p99"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in components:
        table.add_row(
            found.component,
            found.kind,
            f"{found.pods_ready}/{found.pods}",
            f"{found.tasks_assigned}/{'–' if found.tasks is None else found.tasks}",
            f"{found.acked:,}",
            Text(f"{found.failed:,}", style="red" if found.failed else ""),
            f"{found.pending:,}",
            *(
                "–" if each is None else format_seconds(each)
                for each in (found.latency_p50, found.latency_p99)
            ),
        )
    notes = [
        _note(f"{pod}: {why}", "yellow")
        for found in components
        for pod, why in found.remarks.items()
    ]
    notes += [
        _note(f"{pod}: {why}", "red")
        for found in components
        for pod, why in found.not_ready.items()
    ]
    notes += [
        _note(f"{found.component}: {format_error(found.last_error, found.last_error_age)}", "red")
        for found in components
        if found.last_error
    ]
    return Group(table, *notes)


def _note(text: str, style: str) -> Text:
    return Text(printable(text), style=style)

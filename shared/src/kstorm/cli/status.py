"""`kstorm status [NAME]`: show the topologies that run, and their condition.

    kstorm status
    kstorm status wordcount --watch

It looks on this machine and on Kubernetes. The exit code is 1 if a topology has a problem. With a
name, a second look finds what slows the topology down, as `kstorm causes` does.
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kstorm.cli.json_output import Json, print_json
from kstorm.cli.options import with_options
from kstorm.cli.place_options import RunOptions, workload_name
from kstorm.cli.status_view import causes_view, status_view
from kstorm.errors import ControlError
from kstorm.operations.kubernetes.cluster import Cluster, is_named, missing_file, open_cluster
from kstorm.operations.kubernetes.component_status import (
    ComponentStatus,
    component_statuses,
    local_statuses,
)
from kstorm.operations.kubernetes.topologies import find_topology
from kstorm.operations.kubernetes.workloads import Workload
from kstorm.operations.places import LocalRun, OnKubernetes
from kstorm.operations.status.bottlenecks import bottlenecks_of
from kstorm.operations.status.recent_snapshots import RecentSnapshots
from kstorm.operations.status.troubles import grouped
from kstorm.printable import printable
from kstorm.runtime.base.reachable import parse_addresses, why_unreachable
from kstorm.runtime.base.terminal import Screen
from kstorm.runtime.run_files import RunningTopology, find_runs, runs_folder
from kstorm.runtime.service.status_counters import format_error

_LOOK_SECS: Final = 2.0
_KAFKA_PORT: Final = 9092
_PROBLEM: Final = 1
"""Exit code if a topology has a problem."""

Window = Annotated[
    float,
    typer.Option(
        "--window",
        min=0.0,
        metavar="SECONDS",
        help="With NAME: seconds until a second look, which finds what slows the topology down. "
        "0: no second look.",
    ),
]
WINDOW_SECS: Final = 5.0
Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Refresh every two seconds, until Ctrl-C.")
]


class TopologyHealth(msgspec.Struct, frozen=True):
    """The condition of one topology."""

    topology: str
    place: str
    processes: int
    """Wanted processes, or pods on Kubernetes."""
    processes_ready: int
    acked: int
    """Completed messages since the spouts' processes started."""
    failed: int
    pending: int
    problems: Sequence[str]


@with_options(RunOptions)
def status(
    options: RunOptions,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="The topology. Default: all of them.", show_default=False
        ),
    ] = None,
    watch: Watch = False,
    window: Window = WINDOW_SECS,
    json: Json = False,
) -> None:
    """Show which topologies run, here and on Kubernetes, and their condition.

    The exit code is 1 if a topology has a problem.
    """
    if name is not None:
        show_status(options, name, watch=watch, window=window, json=json)
        return
    if watch:
        _repeat(lambda: _show_all(options, json))
        return
    raise typer.Exit(_PROBLEM if _show_all(options, json) else 0)


def show_status(options: RunOptions, name: str, *, watch: bool, window: float, json: bool) -> None:
    """Show the components of one topology, and what slows it down. JSON has only the former."""
    name = workload_name(name)
    place = options.find(name)
    cluster = place.open() if isinstance(place, OnKubernetes) else None

    def look() -> Sequence[ComponentStatus]:
        if cluster is not None:
            return component_statuses(cluster, find_topology(cluster, name))
        assert isinstance(place, LocalRun)
        found = next((each for _, each in find_runs(place.folder)), None)
        if found is None:
            raise ControlError(f"{name!r} has ended: it was {place}")
        return local_statuses(found)

    if json:
        if watch:
            _repeat(lambda: print_json(look()))
        else:
            print_json(look(), pretty=True)
        return
    # Importing Kafka's client takes time.
    from kstorm.operations.status.sampling import KubernetesSampler, LocalSampler, TopologySampler

    recent = RecentSnapshots()
    sampler: TopologySampler
    if cluster is not None:
        sampler = KubernetesSampler(cluster, cluster, name)
    else:
        assert isinstance(place, LocalRun)
        sampler = LocalSampler(place.folder, name)

    def show() -> RenderableType:
        if cluster is not None:
            workloads = find_topology(cluster, name)
            stopped = cluster.stopped_check(workloads[0].release)
            more = [f"the last upgrade has changed nothing: {stopped}"] if stopped else []
            return status_view(component_statuses(cluster, workloads), more)
        assert isinstance(place, LocalRun)
        components = look()
        return status_view(components, _no_broker(place.running, components))

    def causes() -> RenderableType:
        return causes_view(bottlenecks_of(recent.learn(sampler.look())))

    if watch:
        with Live(console=_screen(), auto_refresh=False) as live:
            _repeat(lambda: live.update(Group(show(), causes()), refresh=True))
        return
    with ThreadPoolExecutor(1) as pool:
        # A process that hangs holds up both for seconds.
        first = pool.submit(causes) if window > 0 else None
        _screen().print(show())
    if first is not None:
        first.result()
        time.sleep(window)
        _screen().print(causes())


def _no_broker(run: RunningTopology, components: Sequence[ComponentStatus]) -> list[str]:
    """Report an outage of Kafka that no process has noticed yet."""
    if any(each.kafka_away_since is not None for each in components):
        return []
    servers = parse_addresses(run.bootstrap, _KAFKA_PORT)
    why = why_unreachable(servers) if servers else ""
    return [f"Kafka does not answer ({why})"] if why else []


def _repeat(show: Callable[[], object]) -> None:
    try:
        while True:
            show()
            time.sleep(_LOOK_SECS)
    except KeyboardInterrupt:
        return


def _show_all(options: RunOptions, json: bool) -> bool:
    """Show all topologies. Return True if one of them has a problem."""
    found = list(_local(options))
    trouble = ""
    if options.choice.names_cluster or (options.runs is None and is_named()):
        try:
            found += _on_kubernetes(open_cluster(options.namespace, options.context))
        except ControlError as error:
            # The runs on this machine are shown even if the cluster is away.
            if not found:
                raise
            trouble = str(error)
    if json:
        print_json(found)
    elif found:
        _screen().print(_table(found))
    else:
        print(_nothing(options))
    if trouble:
        print(f"kstorm: {trouble}", file=sys.stderr)
    return bool(trouble) or any(each.problems for each in found)


def _local(options: RunOptions) -> Iterator[TopologyHealth]:
    if options.choice.names_cluster:
        return
    for folder, run in find_runs(options.runs or runs_folder()):
        components = local_statuses(run)
        outage = _no_broker(run, components)
        yield _health(run.name, str(folder), components, outage)


def _on_kubernetes(cluster: Cluster) -> Iterator[TopologyHealth]:
    workloads: dict[str, list[Workload]] = {}
    for each in cluster.workloads():
        workloads.setdefault(each.topology, []).append(each)
    for name, of_it in workloads.items():
        yield _health(name, f"namespace {cluster.namespace}", component_statuses(cluster, of_it))


def _nothing(options: RunOptions) -> str:
    here = options.runs or runs_folder()
    if options.choice.names_cluster:
        return f"there is no topology in the namespace {options.namespace or 'of the context'}"
    elsewhere = "none on Kubernetes" if options.runs is None and is_named() else missing_file()
    return f"no topology runs from {here}, and {elsewhere}; `kstorm dev` starts one"


def _health(
    name: str, place: str, components: Sequence[ComponentStatus], more: Sequence[str] = ()
) -> TopologyHealth:
    spouts = [each for each in components if each.kind == "spout"]
    return TopologyHealth(
        name,
        place,
        sum(each.pods for each in components),
        sum(each.pods_ready for each in components),
        sum(each.acked for each in spouts),
        sum(each.failed for each in spouts),
        sum(each.pending for each in spouts),
        [*_problems(components), *more],
    )


def _problems(components: Sequence[ComponentStatus]) -> Iterator[str]:
    """Yield each problem once, with the processes that have it."""
    for each in components:
        if each.pods_ready < each.pods and not each.not_ready:
            yield f"{each.component}: {each.pods_ready} of {each.pods} processes are ready"
    reasons = (
        found for each in components for found in (*each.not_ready.items(), *each.remarks.items())
    )
    yield from (each.headline for each in grouped(reasons, sum(each.pods for each in components)))
    for each in components:
        if each.last_error:
            yield f"{each.component}: {format_error(each.last_error, each.last_error_age)}"


def _table(found: Sequence[TopologyHealth]) -> RenderableType:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("topology", "place", "ready"):
        table.add_column(name, overflow="fold")
    for name in ("acked", "failed", "pending"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("condition", overflow="fold")
    for each in found:
        table.add_row(
            each.topology,
            each.place,
            f"{each.processes_ready}/{each.processes}",
            f"{each.acked:,}",
            f"{each.failed:,}",
            f"{each.pending:,}",
            Text(
                f"{len(each.problems)} problem{'s' if len(each.problems) > 1 else ''}"
                if each.problems
                else "good",
                style="red" if each.problems else "green",
            ),
        )
    notes = [
        Text(printable(f"{each.topology}: {problem}"), style="red")
        for each in found
        for problem in each.problems
    ]
    return Group(table, *notes)


def _screen() -> Screen:
    return Screen(markup=False, emoji=False, highlight=False)

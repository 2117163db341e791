"""`kstorm causes NAME`: what holds a topology on Kubernetes back, ranked, with the evidence."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Final

import msgspec
import typer

from kstorm.cli.cluster import Cluster, open_cluster
from kstorm.cli.finding import Context, Name, Namespace, find
from kstorm.cli.workloads import Workload
from kstorm.inspect.causes import Component, Look
from kstorm.inspect.causes import causes as rank
from kstorm.printable import printable

_AT_ONCE: Final = 8


def causes(
    name: Name,
    window: Annotated[
        float,
        typer.Option("--window", min=0.1, metavar="SECONDS", help="How long to look: between two looks at each pod."),
    ] = 5.0,
    json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    namespace: Namespace = None,
    context: Context = None,
) -> None:
    """Says what holds a topology back: who is busy, missing, or waits for what, the most telling first."""
    cluster = open_cluster(namespace, context)
    workloads = find(cluster, name)
    before = _look(cluster, workloads)
    time.sleep(window)
    after = _look(cluster, workloads)
    components = [
        Component(workload.component, workload.kind, workload.replicas, *looks)
        for workload, *looks in zip(workloads, before, after, strict=True)
    ]
    found = rank(components)
    if json:
        print(msgspec.json.encode(found).decode())
        return
    for cause in found:
        print(printable(cause.said))
        for line in cause.evidence:
            print(printable(f"    {line}"))
    if not found:
        print(f"nothing holds {name} back: its pods are there, none is busy, and none waits")


def _look(cluster: Cluster, workloads: Sequence[Workload]) -> Sequence[Look]:
    """At all pods, some side by side."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        pages = [list(pool.map(cluster.status, cluster.pods(workload))) for workload in workloads]
    now = time.monotonic()
    return [Look(now, [page for page in of_it if page is not None]) for of_it in pages]

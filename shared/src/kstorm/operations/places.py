"""Find the place of a topology: a run on this machine, named servers, or Kubernetes.

Every command uses `find_place`, so all of them find a topology in the same place. The operator's
options decide first. Without them, the order is: a run on this machine, the servers that the
environment names, and Kubernetes.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError, ControlError
from kstorm.operations.kubernetes.cluster import Cluster, is_named, missing_file, open_cluster
from kstorm.runtime.base.settings import Settings, with_or_without_topology
from kstorm.runtime.run_files import RunningTopology, find_runs, runs_folder

BOOTSTRAP: Final = "KSTORM_BOOTSTRAP_SERVERS"
ZOOKEEPER: Final = "KSTORM_ZOOKEEPER"


@dataclass(frozen=True, slots=True)
class PlaceChoice:
    """The operator's options. None means that the option is not given."""

    runs: Path | None = None
    """The folder of one run on this machine, or of several."""
    bootstrap: str | None = None
    zookeeper: str | None = None
    namespace: str | None = None
    context: str | None = None

    def check(self) -> None:
        """Raise `ConfigError` if the options name two places."""
        given = [
            ("--runs", "a run on this machine", self.runs is not None),
            (
                "--bootstrap and --zookeeper",
                "servers that can be reached from here",
                self.names_servers,
            ),
            (
                "--namespace and --context",
                "a topology on Kubernetes, whose pod has the addresses of its servers",
                self.names_cluster,
            ),
        ]
        chosen = [f"{option} select {place}" for option, place, there in given if there]
        if len(chosen) > 1:
            raise ConfigError(f"{'; '.join(chosen)}: give one or the other")

    @property
    def names_servers(self) -> bool:
        return self.bootstrap is not None or self.zookeeper is not None

    @property
    def names_cluster(self) -> bool:
        return self.namespace is not None or self.context is not None


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A topology that runs on this machine."""

    folder: Path
    running: RunningTopology

    def __str__(self) -> str:
        return f"the run in {self.folder} (process {self.running.pid})"

    @property
    def settings(self) -> Settings:
        """Settings with the servers of the run."""
        return _settings(self.running.bootstrap, self.running.zookeeper)


@dataclass(frozen=True, slots=True)
class NamedServers:
    """Servers that options or the environment name."""

    bootstrap: str | None = None
    """None: the environment's."""
    zookeeper: str | None = None

    @property
    def settings(self) -> Settings:
        return _settings(self.bootstrap, self.zookeeper)


@dataclass(frozen=True, slots=True)
class OnKubernetes:
    namespace: str | None = None
    context: str | None = None

    def open(self) -> Cluster:
        """Connect to the cluster. Raises `ControlError`."""
        return open_cluster(self.namespace, self.context)


Place = LocalRun | NamedServers | OnKubernetes


def find_place(
    name: str,
    choice: PlaceChoice,
    needs: Sequence[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Place:
    """Return the place of the topology `name`.

    `needs` contains the variables of the servers that the command connects to. If the environment
    has one of them, it names the servers. Without `needs`, named servers are not enough, because
    the command asks the topology's processes.

    Raises `ConfigError` if the options name two places. Raises `ControlError` if two runs on this
    machine have the name, or if there is no place to look in.
    """
    choice.check()
    if choice.names_cluster:
        return OnKubernetes(choice.namespace, choice.context)
    if choice.names_servers and needs:
        return NamedServers(choice.bootstrap, choice.zookeeper)
    folder = choice.runs or runs_folder()
    found = [LocalRun(*each) for each in find_runs(folder) if each[1].name == name]
    if len(found) > 1:
        raise ControlError(
            f"{len(found)} runs of {name!r} are on this machine: {', '.join(map(str, found))}; "
            f"choose one with --runs, such as --runs {found[0].folder}"
        )
    if found:
        return found[0]
    if choice.runs is None and any(variable in environ for variable in needs):
        return NamedServers()
    if choice.runs is None and is_named():
        return OnKubernetes()
    raise ControlError(_nowhere(name, folder, choice, needs))


def describe_runs(folder: Path | None = None) -> str:
    """Return the names of the topologies that run on this machine, or `none`."""
    return ", ".join(sorted(each.name for _, each in find_runs(folder or runs_folder()))) or "none"


def _nowhere(name: str, folder: Path, choice: PlaceChoice, needs: Sequence[str]) -> str:
    there = f"no topology {name!r} runs from {folder} (running there: {describe_runs(folder)})"
    if choice.runs is not None:
        return f"{there}: give the folder of its run"
    unset = [f"{' and '.join(needs)} {'is' if len(needs) == 1 else 'are'} not set"] if needs else []
    option = {BOOTSTRAP: "--bootstrap HOST:PORT", ZOOKEEPER: "--zookeeper HOST:PORT"}
    ways = ["the folder of its run with --runs", *(option[each] for each in needs[:1])]
    return (
        f"{', '.join([there, *unset])}, and {missing_file()}: start it with `kstorm dev`, or give "
        f"{', '.join(ways)} or --context"
    )


def _settings(bootstrap: str | None, zookeeper: str | None) -> Settings:
    given = {BOOTSTRAP: bootstrap, ZOOKEEPER: zookeeper}
    overrides = {name: value for name, value in given.items() if value}
    return with_or_without_topology(os.environ | overrides)

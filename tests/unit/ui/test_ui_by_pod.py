"""Actions of a web UI with a kubeconfig but without Kafka. A pod of the topology runs and records
them on behalf of the operator."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.operations.kubernetes.cluster import open_cluster
from kstorm_ui.action_forms import requested_action
from kstorm_ui.background_actions import BackgroundAction
from kstorm_ui.collector import Collector
from kstorm_ui.preview import preview
from kstorm_ui.site import Site
from kstorm_ui.sources.kubernetes import KubernetesSource
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.ui_settings import ACTIONS
from tests.exec_stub import ended
from tests.from_kubeconfig import from_kubeconfig
from tests.kubernetes_stub import KubernetesStub

WHO = "anna, by the web UI"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """A cluster with a word count. Kafka's address is not set."""
    with from_kubeconfig(tmp_path, monkeypatch) as stub:
        yield stub


@pytest.fixture
def site(cluster: KubernetesStub) -> Site:
    """A web UI that has polled the cluster, and may run all actions."""
    collector = Collector(KubernetesSource(open_cluster(None, None), inside=False))
    collector._learn(collector._ask())
    return Site(collector, True, frozenset(ACTIONS))


@pytest.fixture
def state(site: Site) -> TopologyState:
    return site.collector.memories["wordcount"].state


def done(site: Site, state: TopologyState, verb: str, fields: dict[str, str]) -> BackgroundAction:
    found = site.background.start(
        state.name, verb, "", WHO, requested_action(site, state, verb, fields, WHO).act
    )
    assert found.over.wait(60)
    return found


@pytest.mark.parametrize(
    ("verb", "fields", "words"),
    [
        ("activate", {}, "activate -- wordcount"),
        ("deactivate", {}, "deactivate -- wordcount"),
        ("drain", {}, "drain -- wordcount"),
        ("drain", {"timeout": "2.5"}, "drain --timeout=2.5 -- wordcount"),
    ],
)
def test_pod_runs_the_action(
    cluster: KubernetesStub,
    site: Site,
    state: TopologyState,
    verb: str,
    fields: dict[str, str],
    words: str,
) -> None:
    """On behalf of the operator. The last line of its output is the result."""
    cluster.on_exec = lambda pod, command: iter(
        [(1, b"7 trees in flight\nwordcount is done\n"), ended(0)]
    )
    assert not asyncio.run(preview(site, state, verb, fields)).problem
    found = done(site, state, verb, fields)
    assert (found.state, found.said) == ("done", "wordcount is done")
    assert cluster.commands == [
        ("wc-sentences-0", ["env", f"KSTORM_OPERATOR={WHO}", "kstorm", *words.split()])
    ]


def test_failure_in_the_pod_is_reported(
    cluster: KubernetesStub, site: Site, state: TopologyState
) -> None:
    """The text is the command's own output. A missing pod is reported too."""
    cluster.on_exec = lambda pod, command: iter(
        [(2, b"kstorm: 'wordcount' still has 7 trees\n"), ended(3)]
    )
    found = done(site, state, "drain", {})
    assert (found.state, found.said) == ("failed", "'wordcount' still has 7 trees")
    for pod in ("wc-sentences-0", "wc-acker-0"):
        cluster.trouble(pod, "CrashLoopBackOff", "back-off")
    found = done(site, state, "drain", {})
    assert (found.state, found.said[:22]) == ("failed", "no spout or acker of '")


def test_pod_records_scaling(cluster: KubernetesStub, site: Site, state: TopologyState) -> None:
    assert done(site, state, "scale", {"component": "split", "pods": "3"}).said == "split: 1 → 3"
    ((pod, command),) = cluster.commands
    assert pod == "wc-acker-0"
    words = ["note", "--what=split=3", "--outcome=split: 1 → 3", "--", "wordcount", "scale"]
    assert command == ["env", f"KSTORM_OPERATOR={WHO}", "kstorm", *words]


@pytest.mark.parametrize("verb", ["replay", "discard"])
def test_dead_letter_actions_need_kafka(site: Site, state: TopologyState, verb: str) -> None:
    with pytest.raises(ConfigError, match="The web UI does not know Kafka's address"):
        requested_action(site, state, verb, {"number": "1"}, WHO)


def test_pod_command_has_its_own_client(
    cluster: KubernetesStub, site: Site, state: TopologyState, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While a client opens a connection to a pod, it cannot send other requests. So polling would
    stop."""
    used: list[Any] = []

    def execute(core: Any, *_: Any) -> int:
        used.append(core)
        return 0

    monkeypatch.setattr("kstorm.operations.kubernetes.cluster.execute", execute)
    done(site, state, "activate", {})
    assert site.cluster is not None
    assert len(used) == 1
    assert used[0].api_client is not site.cluster._core.api_client

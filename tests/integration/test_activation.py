"""`kstorm activate|deactivate|drain|kill` on real servers: which spouts emit, and what happens to
messages in flight."""

import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest
from kazoo.client import KazooClient

from kstorm.dev.servers import EmbeddedZooKeeper
from kstorm.errors import ControlError
from kstorm.operations.control import activation
from kstorm.runtime.zookeeper.topology_nodes import (
    ROOT,
    SpoutReport,
    deactivated_path,
    open_topologies,
    spouts_path,
)
from kstorm.runtime.zookeeper.topology_watch import TopologyWatch
from tests.chaos.proxy import Proxy
from tests.conftest import Eventually
from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words
from tests.kstorm_command import Command, run_kstorm
from tests.kubernetes_stub import KubernetesStub

STAYS = "it stays deactivated until `kstorm activate {}`"


@pytest.fixture
def kstorm(zookeeper: EmbeddedZooKeeper, capsys: pytest.CaptureFixture[str]) -> Command:
    """A function that runs the command and returns exit code, output and errors."""

    def run(*words: str) -> tuple[object, str, str]:
        place = () if "--zookeeper" in words else ("--zookeeper", zookeeper.connect)
        return run_kstorm(capsys, *words, *place)

    return run


@pytest.fixture
def engine(run_topology: RunTopology, way: Proxy) -> Iterator[Engine]:
    settings = {"KSTORM_ZOOKEEPER": way.address}
    with run_topology("wordcount", settings=settings) as found:
        yield found


def name_of(engine: Engine) -> str:
    return engine.processes.topology.name


def ready(engine: Engine) -> str:
    """Return the text of the spout's `/readyz`, which has status 200."""
    port = engine.worker("sentences-0").web_port
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
        text: bytes = answer.read()
    return text.decode().strip()


def sentences(count: int) -> list[str]:
    return [" ".join(f"w{(i * 7 + j * j) % 199}" for j in range(10)) for i in range(count)]


@pytest.mark.slow
def test_deactivated_topology_finishes_trees_in_flight_and_emits_nothing(
    engine: Engine, kstorm: Command
) -> None:
    """It emits nothing more and replays nothing.

    It stores the offsets of finished messages, where it resumes later.
    """
    name, text = name_of(engine), sentences(6000)
    engine.produce(text[:5000])
    engine.await_total("sentences", "acked", 500)
    code, told, _ = kstorm("deactivate", name)
    assert code == 0
    assert told.startswith(f"{name} is deactivated: 1 spout process, ")
    emitted = engine.total("sentences", "emitted")
    engine.until(lambda: engine.total("sentences", "pending") == 0, 60, "nothing in flight")
    engine.until(
        lambda: sum(engine.offsets().values()) == emitted,
        30,
        "the offsets of all that finished are stored",
    )
    engine.produce(text[5000:])
    assert re.match(r"deactivated since 2\d{3}-.* UTC, from .* \(pid \d+\)$", ready(engine))
    status = engine.worker("sentences-0").status()
    assert status is not None
    assert (status["active"], status["remark"], status["not_ready"]) == (False, ready(engine), "")
    told = f"{name} was already deactivated: 1 spout process, nothing in flight\n"
    engine.until(lambda: kstorm("deactivate", name)[1] == told, 10, "ZooKeeper has the report")
    assert engine.total("sentences", "emitted") == emitted
    assert kstorm("activate", name)[:2] == (0, f"{name} is active again: 1 spout process\n")
    engine.await_done("sentences")
    assert ready(engine) == "ok"
    assert check_words(engine, text) == Counter()
    assert engine.total("sentences", "emitted") == 6000
    assert kstorm("activate", name)[1] == f"{name} was already active: 1 spout process\n"


@pytest.mark.slow
def test_spout_started_while_deactivated_emits_nothing(engine: Engine, kstorm: Command) -> None:
    """The deactivation outlives the processes, even killed ones."""
    name, text = name_of(engine), sentences(300)
    assert kstorm("deactivate", name)[0] == 0
    spout = engine.worker("sentences-0")
    spout.process.kill()
    engine.produce(text)
    engine.until(
        lambda: spout.process.starts == 2 and bool((spout.status() or {}).get("tasks")),
        60,
        "it runs again",
    )
    engine.processes.wait_ready()
    assert ready(engine).startswith("deactivated since")
    assert kstorm("drain", name)[:2] == (
        0,
        f"{name} is drained: 1 spout process, nothing in flight\n{STAYS.format(name)}\n",
    )
    assert engine.total("sentences", "emitted") == 0
    assert kstorm("activate", name)[0] == 0
    engine.await_done("sentences")
    assert check_words(engine, text) == Counter()


@pytest.mark.slow
def test_drain_waits_for_messages_in_flight(engine: Engine, kstorm: Command) -> None:
    """It prints their number.

    After its timeout it names their places, and the topology stays deactivated.
    """
    name, text = name_of(engine), sentences(3000)
    split = engine.worker("split-0").process
    split.pause()
    engine.produce(text)
    engine.until(lambda: engine.total("sentences", "pending") > 0, 60, "something is in flight")
    code, told, error = kstorm("drain", name, "--timeout", "3")
    assert code == 3
    assert re.search(
        rf"kstorm: '{name}' still has [\d,]+ trees in flight \(sentences at sentences-0\) after 3 s; it stays "
        "deactivated: drain it again, or activate it\n",
        error,
    )
    assert "trees in flight" in told
    assert not (engine.worker("sentences-0").status() or {})["active"]
    split.resume()
    code, told, _ = kstorm("drain", name)
    assert (code, told.splitlines()[-2:]) == (
        0,
        [f"{name} is drained: 1 spout process, nothing in flight", STAYS.format(name)],
    )
    assert engine.total("sentences", "pending") == 0
    assert kstorm("activate", name)[0] == 0
    engine.await_done("sentences")
    assert not check_words(engine, text) - Counter(" ".join(text).split())


@pytest.fixture
def cluster(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KubernetesStub]:
    """The API server of a cluster with the word count. Its pods are the local processes."""
    with KubernetesStub() as stub:
        for component, kind in (("sentences", "spout"), ("split", "bolt"), ("acker", "acker")):
            stub.add(component, kind, topology=name_of(engine))
        stub.pods[0]["metadata"]["name"] = "sentences-0"  # a process has the name of its pod

        def scale(name: str, replicas: int) -> None:
            component = name.removeprefix("wc-")
            if component == "sentences":
                Thread(target=engine.processes.scale, args=(component, replicas)).start()

        stub.on_scale = scale
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "kubeconfig")))
        yield stub


@pytest.mark.slow
def test_kill_drains_scales_to_0_and_forgets(
    engine: Engine, kstorm: Command, cluster: KubernetesStub
) -> None:
    """It waits for the end of the last spout. A later topology with this name emits."""
    name, text = name_of(engine), sentences(2000)
    engine.produce(text[:1500])
    engine.await_total("sentences", "acked", 100)
    code, told, _ = kstorm("kill", name, "--yes")
    lines = [
        line
        for line in told.splitlines()
        if not line.startswith(("waiting", "no response yet")) and " in flight (" not in line
    ]
    assert code == 0
    assert lines == [
        f"{name}: sentences, split, acker",
        "  Kubernetes: the context stub, namespace streams; spouts: sentences-0",
        f"  ZooKeeper: {engine.processes.zookeeper}; spouts: sentences-0",
        f"{name} is drained: 1 spout process, nothing in flight",
        "sentences: 1 → 0",
        "split: 1 → 0",
        "acker: 1 → 0",
        (
            f"{name} is killed; its release is still there, without pods: `helm uninstall wc --namespace streams` removes it, "
            "`helm upgrade` starts it again"
        ),
    ]
    assert [pod["metadata"]["name"] for pod in cluster.pods] == []
    nobody = f"kstorm: ZooKeeper at {engine.processes.zookeeper} has no topology '{name}'"
    assert kstorm("activate", name)[2].startswith(nobody)
    engine.produce(text[1500:])
    engine.until(lambda: not engine.processes.of("sentences"), 60, "the spout's process is gone")
    engine.processes.scale("sentences", 1)
    engine.await_done("sentences")
    assert check_words(engine, text) == Counter()


@pytest.mark.slow
def test_kill_with_unfinished_trees(
    engine: Engine, kstorm: Command, cluster: KubernetesStub
) -> None:
    """It waits for `--wait` seconds and names the remaining trees, which are not lost."""
    cluster.autoscale("split")
    name, text = name_of(engine), sentences(200)
    split = engine.worker("split-0").process
    split.pause()
    engine.produce(text)
    engine.until(lambda: engine.total("sentences", "pending") > 0, 60, "something is in flight")
    code, told, _ = kstorm("kill", name, "--yes", "--wait", "1")
    assert code == 0
    assert "trees in flight (sentences at sentences-0) after 1 s" in told
    assert (
        "It is killed anyway; messages in flight will be emitted again when it is started again"
        in told
    )
    assert told.endswith(
        f"starts it again, except autoscaled components: `kstorm scale {name} split=1`\n"
    )
    split.resume()
    engine.until(lambda: not engine.processes.of("sentences"), 60, "the spout's process is gone")
    engine.processes.scale("sentences", 1)
    engine.await_done("sentences")
    assert not Counter(" ".join(text).split()).keys() - {
        record["word"] for record in engine.records()
    }


@pytest.mark.slow
def test_kill_refuses_components_scaled_by_keda(
    engine: Engine, kstorm: Command, cluster: KubernetesStub
) -> None:
    """KEDA would restart it at once. Nothing is deactivated or scaled."""
    cluster.autoscale("split", scaled_object="wc-split")
    code, _, error = kstorm("kill", name_of(engine), "--yes")
    assert (code, cluster.patches) == (2, [])
    assert (
        "'split' is scaled by KEDA's ScaledObject wc-split (1 to 4), which would start it again"
        in error
    )
    assert ready(engine) == "ok"


@pytest.mark.slow
def test_zookeeper_outage_keeps_the_topology_as_it_is(
    engine: Engine, kstorm: Command, way: Proxy
) -> None:
    """`/status` reports the outage. Commands take effect after it."""
    name, text = name_of(engine), sentences(200)
    assert kstorm("deactivate", name)[0] == 0
    engine.produce(text)
    way.cut()

    def problem() -> str:
        return str((engine.worker("sentences-0").status() or {}).get("control_problem"))

    engine.until(lambda: "cannot be reached" in problem(), 60, "the spout misses ZooKeeper")
    assert (
        f"ZooKeeper at {way.address} cannot be reached: the topology stays deactivated" in problem()
    )
    engine.until(lambda: not reports(engine), 60, "its session has expired")
    assert kstorm("activate", name)[1] == f"{name} is active again: no spout process runs\n"
    assert engine.total("sentences", "emitted") == 0
    way.heal()
    engine.await_done("sentences", 90)
    assert problem() == ""
    assert check_words(engine, text) == Counter()


def reports(engine: Engine) -> list[str]:
    """Return the nodes of the spout's processes."""
    client = KazooClient(engine.processes.zookeeper)
    client.start(30)
    found: list[str] = client.get_children(spouts_path(name_of(engine)))
    client.stop()
    client.close()
    return found


@pytest.mark.slow
def test_unknown_name_lists_known_topologies(
    kstorm: Command, zookeeper: EmbeddedZooKeeper, topic_prefix: str
) -> None:
    client = KazooClient(zookeeper.connect)
    client.start(30)
    client.ensure_path(spouts_path(topic_prefix))
    for verb in ("activate", "deactivate", "drain"):
        code, told, error = kstorm(verb, "wordcuont")
        assert (code, told) == (2, "")
        assert error.startswith(
            f"kstorm: ZooKeeper at {zookeeper.connect} has no topology 'wordcuont'; its topologies are "
        )
        assert topic_prefix in error
    assert client.exists(f"{ROOT}/wordcuont") is None
    client.stop()
    client.close()


@pytest.mark.slow
def test_each_topology_is_deactivated_separately(
    kstorm: Command, zookeeper: EmbeddedZooKeeper, topic_prefix: str, eventually: Eventually
) -> None:
    """Two topologies share a ZooKeeper.

    A process reports its deactivation as soon as it stops emitting.
    """
    names = [f"{topic_prefix}-{number}" for number in (1, 2)]
    watches = [TopologyWatch(zookeeper.connect, "", name) for name in names]
    onlooker = KazooClient(zookeeper.connect)
    onlooker.start(30)

    def tell(active: bool, pending: int) -> None:
        watches[0].tell(SpoutReport("lines", "lines-0", active, pending, 0, 30.0))

    def told() -> dict[str, object]:
        found: dict[str, object] = json.loads(
            onlooker.get(f"{spouts_path(names[0])}/lines:lines-0")[0]
        )
        return found

    for watch in watches:
        watch.start()
        eventually(lambda watch=watch: watch.active, 4.5)  # type: ignore[misc]
    tell(True, 3)
    eventually(lambda: onlooker.exists(f"{spouts_path(names[0])}/lines:lines-0"), 10)
    onlooker.create(deactivated_path(names[0]), b"by hand")
    eventually(lambda: not watches[0].active, 10)
    assert watches[0].remark == "deactivated"
    assert (watches[1].active, watches[1].remark) == (True, "")
    tell(False, 5)
    eventually(lambda: told()["active"] is False, 10)

    def drained() -> bool:
        tell(False, 0)
        return told()["pending"] == 0

    eventually(drained, 10)
    for watch in watches:
        watch.close()
    assert onlooker.get_children(spouts_path(names[0])) == []
    onlooker.stop()
    onlooker.close()


@pytest.mark.slow
def test_login_prevents_others_from_deactivating(
    kstorm: Command,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two users share a ZooKeeper and a chroot that everyone may use.

    The order of their start does not matter.
    """
    connect = f"{zookeeper.connect}/{topic_prefix}"
    onlooker = KazooClient(zookeeper.connect)
    onlooker.start(30)
    onlooker.create(f"/{topic_prefix}")
    onlooker.stop()
    onlooker.close()
    logins = {"hers": "digest:her:secret", "his": "digest:him:secret"}
    watches = {name: TopologyWatch(connect, login, name) for name, login in logins.items()}
    for name, watch in watches.items():
        watch.tell(SpoutReport("lines", name, True, 0, 0, 30.0))
        watch.start()

    def lets(login: str, verb: str, name: str) -> str:
        monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", login)
        return kstorm(verb, name, "--zookeeper", connect)[2]

    def obey() -> bool:
        watches["hers"].tell(SpoutReport("lines", "hers", watches["hers"].active, 0, 0, 30.0))
        return not watches["hers"].active

    eventually(
        lambda: (
            "'nobody'; its topologies are hers, his" in lets(logins["his"], "activate", "nobody")
        ),
        20,
    )
    assert "the user 'him' may not use /kstorm-topologies/hers/deactivated" in lets(
        logins["his"], "deactivate", "hers"
    )
    monkeypatch.setattr("kstorm.operations.control.activation._OBEY_SECS", 0.1)
    assert "'hers': no response yet from lines at hers" in lets(
        logins["hers"], "deactivate", "hers"
    )
    eventually(obey, 10)
    assert watches["his"].active
    assert watches["hers"].remark.startswith("deactivated since")
    for watch in watches.values():
        assert watch.problem == ""
        watch.close()


@pytest.mark.slow
def test_activated_topology_is_not_drained(
    zookeeper: EmbeddedZooKeeper, topic_prefix: str, eventually: Eventually
) -> None:
    """Otherwise it would wait without success, and report a deactivated topology."""
    with open_topologies(zookeeper.connect) as topologies:
        watch = TopologyWatch(zookeeper.connect, "", topic_prefix)
        watch.tell(SpoutReport("lines", "lines-0", False, 1, 0, 30.0))
        watch.start()
        eventually(lambda: topologies.spouts(topic_prefix), 20)

        def wait(look: Callable[[], str], _: float) -> str:
            if "in flight" in (left := look()):
                topologies.activate(topic_prefix)
                look()
            return left

        with pytest.raises(
            ControlError, match="is not drained: an operator has activated it meanwhile"
        ):
            activation.drain(topologies, topic_prefix, None, "anna@laptop", wait)
        watch.close()


@pytest.mark.slow
def test_topology_is_active_without_zookeeper(eventually: Eventually) -> None:
    """It first waits a few seconds for ZooKeeper's answer."""
    watch = TopologyWatch("127.0.0.1:1", "", "alone")
    watch.start()
    assert not watch.active
    assert watch.remark.startswith("waits until ZooKeeper at 127.0.0.1:1")
    eventually(lambda: watch.active, 10)
    assert (watch.remark, "the topology stays active" in watch.problem) == ("", True)
    watch.close()


@pytest.mark.slow
def test_topology_in_a_chroot(
    kstorm: Command,
    zookeeper: EmbeddedZooKeeper,
    topic_prefix: str,
    eventually: Eventually,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A user without access gets an error with the node and the remedy."""
    connect = f"{zookeeper.connect}/{topic_prefix}"
    watch = TopologyWatch(connect, "digest:her:secret", "hers")
    watch.tell(SpoutReport("lines", "lines-0", True, 0, 0, 30.0))
    watch.start()
    monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", "digest:her:secret")
    eventually(lambda: kstorm("activate", "hers", "--zookeeper", connect)[0] == 0, 20)
    assert watch.problem == ""
    monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", "digest:him:secret")
    code, _, error = kstorm("deactivate", "hers", "--zookeeper", connect)
    assert (code, error.count("\n")) == (2, 1)
    assert "the user 'him' may not use /" in error
    watch.close()

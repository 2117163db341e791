"""`kstorm activate|deactivate|drain|offsets|kill` from outside a cluster.

The real Kubernetes client runs on a stub of the API server. The tests check the pod, its command
line and the output.
"""

import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from threading import Event

import pytest

from kstorm.operations.events.operator_identity import operator
from tests.exec_stub import Frames, ended
from tests.from_kubeconfig import from_kubeconfig, given
from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub

ALL_BUT_SPOUTS = ["wc-count", "wc-split", "wc-acker"]
IN_SPOUT = "kstorm: in the pod streams/wc-sentences-0 (kstorm-spout:1, context stub)\n"


@pytest.fixture(autouse=True)
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubernetesStub]:
    """Provide a cluster with a word count, and no ZooKeeper."""
    components = [("sentences", "spout"), ("split", "bolt"), ("count", "bolt"), ("acker", "acker")]
    with from_kubeconfig(tmp_path, monkeypatch, components=components) as stub:
        yield stub


def answer(cluster: KubernetesStub, frames: Sequence[tuple[int, bytes]]) -> None:
    cluster.on_exec = lambda pod, command: iter(frames)


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["activate", "wordcount"], "activate -- wordcount"),
        (["deactivate", "wordcount"], "deactivate -- wordcount"),
        (["drain", "wordcount"], "drain -- wordcount"),
        (
            ["drain", "wordcount", "--timeout", "5", "-n", "streams"],
            "drain --timeout=5 -- wordcount",
        ),
        (["offsets", "show", "--topology", "wordcount"], "offsets show --component=sentences --"),
        (
            [
                "migrate",
                "offsets",
                "-t",
                "wordcount",
                "--group=g 1",
                "--watch=9",
                "--yes",
                "--json",
            ],
            (
                "migrate offsets --component=sentences --group=g 1 --storm-root=/storm --watch=9.0 --yes "
                "--json --"
            ),
        ),
        (
            ["migrate", "offsets", "-t", "wordcount", "--node=/a/b", "--storm-zookeeper=z:1"],
            (
                "migrate offsets --component=sentences --node=/a/b --storm-zookeeper=z:1 "
                "--storm-root=/storm --"
            ),
        ),
        (
            [
                "offsets",
                "reset",
                "--topology",
                "wordcount",
                "--to",
                "latest",
                "--partition",
                "3",
                "--partition",
                "4",
            ],
            "offsets reset --component=sentences --to=latest --partition=3 --partition=4 --",
        ),
        (
            ["offsets", "set", "--topology", "wordcount", "--component", "sentences", "0=7", "1=9"],
            "offsets set --component=sentences -- 0=7 1=9",
        ),
        (
            [
                "offsets",
                "show",
                "--topology",
                "wordcount",
                "--root",
                "/a b",
                "--id",
                "x",
                "--topic",
                "lines",
            ],
            "offsets show --root=/a b --id=x --topic=lines --",
        ),
    ],
)
def test_command_runs_in_a_spout_pod(
    cluster: KubernetesStub, kstorm: Command, words: list[str], command: str
) -> None:
    """The options of the cluster are removed. A line on stderr names the pod first."""
    answer(cluster, [(1, b"done\n"), ended(0)])
    assert kstorm(*words) == (0, "done\n", IN_SPOUT)
    assert given(cluster) == [("wc-sentences-0", command)]


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_output_errors_and_exit_code_are_the_pods(
    cluster: KubernetesStub, kstorm: Command, code: int
) -> None:
    """Each is passed on when it arrives."""
    answer(
        cluster,
        [(1, b"3 \xe2\x86\x92"), (2, b"kstorm: no\n"), (1, b" 4\n" + 200 * b"x"), ended(code)],
    )
    assert kstorm("drain", "wordcount") == (code, "3 → 4\n" + 200 * "x", f"{IN_SPOUT}kstorm: no\n")


def test_character_split_between_chunks_is_decoded(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Event()

    class Out(io.StringIO):
        def flush(self) -> None:
            seen.set()

    def run(pod: str, command: list[str]) -> Frames:
        yield 1, b"3 \xe2\x86"
        assert seen.wait(20)
        yield 1, b"\x92 4\n"
        yield ended(0)

    cluster.on_exec = run
    monkeypatch.setattr("sys.stdout", out := Out())
    kstorm("drain", "wordcount")
    assert out.getvalue() == "3 → 4\n"


def test_last_output_is_printed(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client may receive the last output and the end while it checks for errors."""

    class Session:
        def __init__(self) -> None:
            self.read = {1: [b"3", b" trees"], 2: [b"", b""], 3: [ended(0)[1]]}
            self.close = lambda: None

        def is_open(self) -> bool:
            return len(self.read[2]) == 2

        def update(self, timeout: float) -> None: ...

        def read_channel(self, channel: int) -> bytes:
            return self.read[channel].pop(0)

    monkeypatch.setattr("kubernetes.stream.stream", lambda *_, **__: Session())
    assert kstorm("drain", "wordcount")[:2] == (0, "3 trees")


def test_operator_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert operator() == "anna@laptop"
    monkeypatch.delenv("KSTORM_OPERATOR")
    monkeypatch.setenv("LOGNAME", "berta")
    assert operator().startswith("berta@")


@pytest.mark.parametrize(
    ("zookeeper", "variable", "namespace", "far"),
    [
        (None, None, None, True),
        ("127.0.0.1:1", None, None, False),
        (None, "127.0.0.1:1", None, False),
        (None, "127.0.0.1:1", "streams", True),
    ],
)
def test_named_zookeeper_is_used_directly(
    cluster: KubernetesStub,
    kstorm: Command,
    monkeypatch: pytest.MonkeyPatch,
    zookeeper: str | None,
    variable: str | None,
    namespace: str | None,
    far: bool,
) -> None:
    """With a namespace, the command uses the pod."""
    if variable is not None:
        monkeypatch.setenv("KSTORM_ZOOKEEPER", variable)
    words = [] if zookeeper is None else ["--zookeeper", zookeeper]
    words += [] if namespace is None else ["--namespace", namespace]
    error = kstorm("drain", "wordcount", *words)[2]
    assert bool(cluster.requests) == bool(cluster.commands) == far
    assert far or f"ZooKeeper at {zookeeper or variable} cannot be reached" in error


def test_missing_kubeconfig_is_reported(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    code, _, error = kstorm("drain", "wordcount")
    assert (code, error.count("\n"), cluster.requests) == (2, 1, [])
    assert "KSTORM_ZOOKEEPER is not set, and there is no kubeconfig" in error


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["drain", "wordcount", "--zookeeper", "z:1", "-n", "streams"], "give one or the other"),
        (
            ["offsets", "show", "--topology", "wordcount", "--zookeeper", "z:1"],
            "the code of 'wordcount' is needed, because it defines the topics of its tuples: give ",
        ),
        (
            ["offsets", "show", "--root", "a", "--id", "b", "--topic", "c", "-n", "streams"],
            "give its name with --topology",
        ),
        (
            ["offsets", "show", "--topology", "wordcount", "--component", "split"],
            "has no component 'split'; it has sentences",
        ),
        (["drain", "wordcuont"], "For a topology outside Kubernetes, give --zookeeper HOST:PORT"),
    ],
)
def test_contradictory_options_are_refused(
    cluster: KubernetesStub, kstorm: Command, words: list[str], says: str
) -> None:
    code, told, error = kstorm(*words)
    assert (code, told, error.count("\n"), cluster.commands) == (2, "", 1, [])
    assert says in error


def test_component_is_required_with_several_spouts(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    cluster.add("orders", "spout")
    assert (
        "Give --component; the spouts of 'wordcount' are orders, sentences"
        in kstorm("offsets", "show", "--topology", "wordcount")[2]
    )
    assert cluster.commands == []
    kstorm("offsets", "show", "--topology", "wordcount", "--component", "sentences")
    assert given(cluster) == [("wc-orders-0", "offsets show --component=sentences --")]


def test_unready_pods_are_skipped(cluster: KubernetesStub, kstorm: Command) -> None:
    """No spout runs while offsets are moved, so an acker's pod is used.

    Without an acker, the message names the remedy.
    """
    cluster.trouble("wc-sentences-0", "CrashLoopBackOff", "back-off")
    kstorm("offsets", "set", "--topology", "wordcount", "0=7")
    assert given(cluster) == [("wc-acker-0", "offsets set --component=sentences -- 0=7")]
    cluster.trouble("wc-acker-0", "CrashLoopBackOff", "back-off")
    code, told, error = kstorm("drain", "wordcount")
    assert (code, told) == (2, "")
    assert error == (
        "kstorm: no spout or acker of 'wordcount' has a ready pod to run this in: `kstorm topology status wordcount "
        "--namespace streams` shows why; `kstorm scale wordcount --namespace streams acker=1` starts one. If ZooKeeper can be "
        "reached from here, give --zookeeper\n"
    )


def test_local_secrets_are_not_sent_to_the_pod(
    cluster: KubernetesStub, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pod has its own logins.

    Command lines are visible there, and in the API server's audit log.
    """
    monkeypatch.setenv("KSTORM_ZOOKEEPER_AUTH", "digest:me:canary")
    monkeypatch.setenv("KSTORM_KAFKA_PROPERTIES", json.dumps({"sasl.password": "canary"}))
    assert kstorm("drain", "wordcount")[0] == 0
    assert cluster.commands
    assert "canary" not in str((cluster.commands, cluster.requests, cluster.headers))


def test_missing_right_is_named(cluster: KubernetesStub, kstorm: Command) -> None:
    cluster.denied = {("get", "pods/exec")}
    assert kstorm("drain", "wordcount")[2].splitlines()[1:] == [
        "kstorm: operator may not get pods/exec in the namespace streams: a Role must allow the verb get on pods/exec"
    ]


@pytest.mark.parametrize(
    ("frames", "says"),
    [
        ([ended(127)], "has no kstorm command: its image kstorm-spout:1 is too old"),
        (
            [
                (
                    3,
                    b'{"status": "Failure", "reason": "InternalError", "message": "exec \\"env\\": not found"}',
                )
            ],
            'the command could not run in the pod wc-sentences-0: exec "env": not found',
        ),
        (
            [(3, b"garbage")],
            "the connection to the pod wc-sentences-0 broke (it returned no exit code)",
        ),
        ([(1, b"3 trees in flight\n")], "and the command may continue there: check its effect"),
    ],
    ids=["no command", "not started", "no exit code", "broken connection"],
)
def test_connection_errors_are_one_line(
    cluster: KubernetesStub, kstorm: Command, frames: list[tuple[int, bytes]], says: str
) -> None:
    """The first line names the pod."""
    answer(cluster, frames)
    code, _, error = kstorm("drain", "wordcount")
    assert (code, error.count("\n")) == (2, 2)
    assert says in error


def test_ctrl_c_reports_that_the_command_continues(
    kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:

    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("kstorm.operations.kubernetes.cluster.execute", interrupted)
    code, _, error = kstorm("drain", "wordcount")
    assert (code, error.splitlines()[-1]) == (
        130,
        "kstorm: the command continues in the pod streams/wc-sentences-0",
    )


def scaled(cluster: KubernetesStub) -> list[str]:
    return [name for name, _ in cluster.patches]


@pytest.mark.parametrize("code", [0, 3])
def test_kill_runs_in_an_acker_pod(cluster: KubernetesStub, kstorm: Command, code: int) -> None:
    """The acker stops last. After the spouts have ended, it removes their inactive state.

    Unfinished trees do not prevent that.
    """
    seen: list[list[str]] = []

    def run(pod: str, command: list[str]) -> Frames:
        seen.append(scaled(cluster))
        yield ended(code if "drain" in command else 0)

    cluster.on_exec = run
    ended_with, told, _ = kstorm("kill", "wordcount", "--yes", "--wait", "4")
    assert ended_with == 0
    assert "  ZooKeeper: that of the pod streams/wc-acker-0\n" in told
    assert ("It is killed anyway" in told) == bool(code)
    assert given(cluster) == [
        ("wc-acker-0", "drain --timeout=4 -- wordcount"),
        ("wc-acker-0", "forget -- wordcount"),
    ]
    assert seen == [[], ["wc-sentences"]]
    assert scaled(cluster) == ["wc-sentences", *ALL_BUT_SPOUTS]


def test_kill_asks_for_confirmation_here(cluster: KubernetesStub, kstorm: Command) -> None:
    """Without a terminal, the command requires `--yes`."""
    code, _, error = kstorm("kill", "wordcount")
    assert (code, cluster.commands, cluster.patches) == (2, [], [])
    assert "give --yes to confirm" in error


def test_failed_drain_prevents_the_kill(cluster: KubernetesStub, kstorm: Command) -> None:
    answer(cluster, [(2, b"kstorm: ZooKeeper at z:1 cannot be reached\n"), ended(2)])
    code, _, error = kstorm("kill", "wordcount", "--yes")
    assert (code, cluster.patches) == (2, [])
    assert error.endswith("could not drain 'wordcount', for the reason above; nothing was scaled\n")


def test_kill_stops_all_pods_if_the_deactivation_cannot_be_removed(
    cluster: KubernetesStub, kstorm: Command
) -> None:
    cluster.on_exec = lambda pod, command: iter([ended(2 if "forget" in command else 0)])
    code, _, error = kstorm("kill", "wordcount", "--yes")
    assert (code, scaled(cluster)) == (2, ["wc-sentences", *ALL_BUT_SPOUTS])
    assert "'wordcount' stays deactivated" in error


def test_kill_requires_a_ready_acker(cluster: KubernetesStub, kstorm: Command) -> None:
    cluster.trouble("wc-acker-0", "CrashLoopBackOff", "back-off")
    code, _, error = kstorm("kill", "wordcount", "--yes")
    assert (code, cluster.commands, cluster.patches) == (2, [], [])
    assert error.startswith("kstorm: no acker of 'wordcount' has a ready pod")

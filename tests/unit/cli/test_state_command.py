"""`kstorm state` and `StateClient` on Kubernetes and on this machine.

The real client uses a stub of the API server. On this machine, the command uses real HTTP.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from kstorm.client import StateClient
from kstorm.errors import ConfigError, ControlError, OverdueError, TopologyError
from kstorm.introspection.key_owner import owner_of
from kstorm.introspection.outline import Outline, OutlineComponent, OutlineEdge
from kstorm.introspection.state_query import json_of_value
from kstorm.operations import places
from kstorm.operations.kubernetes.cluster import Cluster, open_cluster
from kstorm.operations.state import state_client, status_targets
from kstorm.runtime import run_files
from tests.http_stub import HttpStub
from tests.kstorm_command import Command
from tests.kubernetes_stub import KubernetesStub

TOKEN = "canary-7f3a-0123456789"
FIRST, TASKS = 5, 4
EDGES = [OutlineEdge("split", "default", "count", "fields word", ["word"])]
OUTLINE = Outline("wordcount", [OutlineComponent("count", "bolt", TASKS, FIRST)], EDGES)


class Bolt:
    """The responses of the processes of `count`. A test sets the state and place of each task."""

    def __init__(self) -> None:
        self.outline = OUTLINE
        self.places: dict[int, set[str]] = {task: {f"wc-count-{task % 2}"} for task in range(TASKS)}
        """The processes that report the task, by task index."""
        self.at_work: dict[int, set[str]] = {
            task: set(names) for task, names in self.places.items()
        }
        """The processes that answer for the task."""
        self.rows: list[dict[str, Any]] = [{} for _ in range(TASKS)]
        self.offsets: dict[str, int] = {}
        """The offset of each process's answers."""
        self.refusal: tuple[int, str] | None = None
        self.asked: list[tuple[str, int]] = []
        self.on_asked: Callable[[], object] = lambda: None
        self.cluster: KubernetesStub

    def put(self, key: str, value: Any) -> int:
        """Puts a value into the state of its owner."""
        task = owner_of(self.outline, "count", [key])
        assert task is not None
        self.rows[task - FIRST][key] = value
        return task

    def answer(self, name: str, page: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        if page == "status":
            return 200, {"tasks": [task for task, names in self.places.items() if name in names]}
        if page == "topology":
            return 200, msgspec.to_builtins(self.outline)
        if page != "state/count":
            return None
        index = int(query["task"]) - FIRST
        self.asked.append((name, index + FIRST))
        self.on_asked()
        if self.refusal is not None:
            return self.refusal[0], {"error": self.refusal[1]}
        if name not in self.at_work[index]:
            return 421, {"error": f"task {index + FIRST} is not here"}
        return self._told(index, query, {"offset": self.offsets.get(name, 6), "time": 37_741.0})

    def _told(self, index: int, query: Mapping[str, str], as_of: dict[str, Any]) -> tuple[int, Any]:
        rows = {
            key: json_of_value(key, msgspec.msgpack.encode(value))
            for key, value in sorted(self.rows[index].items())
        }
        about = {"component": "count", "task": index + FIRST, "as_of": as_of}
        if "key" in query:
            key = query["key"]
            return (
                (200, {**about, "key": key, **rows[key]})
                if key in rows
                else (404, {**about, "key": key, "error": "no"})
            )
        keys = [
            key
            for key in rows
            if key.startswith(query.get("prefix", "")) and key > query.get("after", "")
        ]
        shown = keys[: min(int(query["limit"]), 2)]
        entries = [{"key": key, **rows[key]} for key in shown]
        return 200, {
            **about,
            "entries": entries,
            "next": shown[-1] if len(keys) > len(shown) else None,
        }


@pytest.fixture
def bolt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bolt]:
    """Provide a bolt of two pods in a cluster. Nothing runs on this machine."""
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "120")
    with KubernetesStub() as stub:
        monkeypatch.setenv("KUBECONFIG", str(stub.write_kubeconfig(tmp_path / "config")))
        stub.add("count", "bolt", 2)
        found = Bolt()
        found.cluster = stub
        stub.on_page = found.answer
        yield found


def client(**options: Any) -> StateClient:
    return StateClient("wordcount", **options)


def test_the_value_of_a_key(bolt: Bolt, kstorm: Command) -> None:
    """Only the task that the grouping chooses is asked."""
    task = bolt.put("the", 3)
    code, told, errors = kstorm("state", "get", "wordcount", "count", "the")
    assert (code, errors) == (0, "")
    assert [line.split() for line in told.splitlines()] == [
        ["key", "value", "task", "as", "of"],
        ["the", "3", f"count:{task}", "offset", "6,", "10:29:01", "UTC"],
    ]
    assert [asked for _, asked in bolt.asked] == [task]
    shown = json.loads(kstorm("state", "get", "wordcount", "count", "the", "--json")[1])
    as_of = {"offset": 6, "time": 37_741.0}
    assert shown == {"key": "the", "value": 3, "component": "count", "task": task, "as_of": as_of}


def test_no_such_key_is_exit_code_1(bolt: Bolt, kstorm: Command) -> None:
    """All tasks are asked first, or with --by only the chosen one."""
    bolt.put("the", 3)
    code, told, errors = kstorm("state", "get", "wordcount", "count", "cow")
    assert (code, told) == (1, "")
    assert errors == "kstorm: no task of count has the key 'cow', as of 10:29:01 UTC\n"
    assert {asked for _, asked in bolt.asked} == set(range(FIRST, FIRST + TASKS))
    bolt.asked.clear()
    task = owner_of(OUTLINE, "count", [7])
    code, _, errors = kstorm("state", "get", "wordcount", "count", "cow", "--by", "[7]")
    assert (code, errors) == (1, f"kstorm: count:{task} has no key 'cow', as of 10:29:01 UTC\n")
    assert [asked for _, asked in bolt.asked] == [task]
    assert kstorm("state", "get", "wordcount", "count", "cow", "--by", "7")[0] == 2


def test_key_other_than_the_grouping_value_is_found(bolt: Bolt) -> None:
    """The grouping's task lacks it, so the others are asked. With `by`, one request is enough."""
    of_word = owner_of(OUTLINE, "count", ["the"])
    assert of_word is not None
    bolt.rows[of_word - FIRST]["the 2026"] = b"x"
    assert client().get("count", "the 2026") == b"x"
    bolt.asked.clear()
    assert client().get("count", "the 2026", by=["the"]) == b"x"
    assert len(bolt.asked) == 1
    assert client().get("count", "gone", 0) == 0


def test_key_in_several_tasks(bolt: Bolt, kstorm: Command) -> None:
    """This happens without fields in the grouping, as with a partial key.

    `get` does not choose one.
    """
    edge = msgspec.structs.replace(EDGES[0], grouped_by=[])
    bolt.outline = msgspec.structs.replace(OUTLINE, edges=[edge])
    bolt.rows[1]["the"], bolt.rows[3]["the"] = 2, 5
    assert [(each.task, each.read()) for each in client().find("count", "the")] == [
        (FIRST + 1, 2),
        (FIRST + 3, 5),
    ]
    with pytest.raises(ControlError, match=r"several tasks of 'count' have the key 'the' \(6, 8\)"):
        client().get("count", "the")
    assert len(kstorm("state", "get", "wordcount", "count", "the")[1].splitlines()) == 3


def test_scan(bolt: Bolt, kstorm: Command) -> None:
    """It covers all tasks page by page, each in the order of its keys."""
    words = [f"w{number}" for number in range(20)]
    for word in [*words, "x\x1b[2J"]:
        bolt.put(word, [word])
    found = list(client().scan("count", "w"))
    assert sorted(each.key for each in found) == sorted(words)
    assert all((a.task, a.key) < (b.task, b.key) for a, b in pairwise(found))
    assert all(each.read() == [each.key] for each in found)
    assert len(list(client().scan("count", limit=7))) == 7
    assert len(kstorm("state", "scan", "wordcount", "count", "--limit", "3")[1].splitlines()) == 4
    lines = kstorm("state", "scan", "wordcount", "count", "--prefix", "x", "--json")[1].splitlines()
    assert [json.loads(line)["key"] for line in lines] == ["x\x1b[2J"]
    assert (
        "\x1b" not in lines[0] + kstorm("state", "scan", "wordcount", "count", "--prefix", "x")[1]
    )
    assert kstorm("state", "scan", "wordcount", "count", "--prefix", "z")[1] == "no such key\n"


def test_moved_task_is_looked_up_again(bolt: Bolt) -> None:
    task = bolt.put("the", 3) - FIRST
    asking = client()
    assert asking.get("count", "the") == 3
    bolt.at_work[task] = set()
    before = len(bolt.asked)

    def moves() -> None:
        if len(bolt.asked) == before + 3:
            bolt.places[task] = bolt.at_work[task] = {f"wc-count-{(task + 1) % 2}"}

    bolt.on_asked = moves
    assert asking.get("count", "the") == 3
    assert bolt.asked[-1] == (f"wc-count-{(task + 1) % 2}", task + FIRST)


def test_unassigned_task_is_reported(
    bolt: Bolt, kstorm: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is 3, because the task may be assigned later."""
    task = bolt.put("the", 3)
    bolt.at_work[task - FIRST] = set()
    with pytest.raises(
        OverdueError,
        match=f"no process returned the state of count:{task} within 0.1 s: its process does not",
    ):
        client(patience=0.1).get("count", "the")
    bolt.places[task - FIRST] = set()
    with pytest.raises(OverdueError, match="no process has the task"):
        client(patience=0.1).get("count", "the")


def test_answer_of_the_newer_checkpoint_wins(bolt: Bolt) -> None:
    """The other process was fenced and has not noticed yet."""
    task = bolt.put("the", 3) - FIRST
    both = {"wc-count-0", "wc-count-1"}
    bolt.places[task] = bolt.at_work[task] = both
    for old, new in (("wc-count-0", "wc-count-1"), ("wc-count-1", "wc-count-0")):
        bolt.offsets = {old: 5, new: 9}
        (found,) = client().find("count", "the")
        assert found.as_of.offset == 9


def test_processes_are_looked_up_again_after_some_seconds(
    bolt: Bolt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former process may still respond, so the owner is looked up again after a few seconds."""
    task = bolt.put("the", 3) - FIRST
    asking = client()
    (old,) = bolt.places[task]
    bolt.offsets = {old: 5}
    assert asking.find("count", "the")[0].as_of.offset == 5
    (new,) = {"wc-count-0", "wc-count-1"} - {old}
    bolt.places[task] = bolt.at_work[task] = {old, new}
    monkeypatch.setattr(state_client, "_FRESH_SECS", 3600.0)
    assert asking.find("count", "the")[0].as_of.offset == 5, "not looked up for each query"
    monkeypatch.setattr(state_client, "_FRESH_SECS", 0.0)
    assert asking.find("count", "the")[0].as_of.offset == 6


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, "its services require a token: give its file"),
        (403, "state queries are disabled here"),
        (404, "'count' keeps no state"),
        (400, "no"),
    ],
)
def test_refusal_is_reported_at_once(bolt: Bolt, kstorm: Command, status: int, error: str) -> None:
    bolt.refusal = status, error
    code, told, said = kstorm("state", "get", "wordcount", "count", "the")
    assert (code, told, said.count("\n")) == (2, "", 1)
    assert said.startswith(f"kstorm: wordcount: {error}")


def test_wrong_token_is_reported(bolt: Bolt) -> None:
    bolt.refusal = 401, "give the token in Authorization: Bearer, or in X-Kstorm-Token"
    with pytest.raises(ControlError, match="the token is not that of its services: give"):
        client(token=TOKEN).get("count", "the")


def test_pod_without_an_address_counts_as_unresponsive(bolt: Bolt, kstorm: Command) -> None:
    """Its replacement is being created. Kubernetes then rejects the request as invalid."""
    task = bolt.put("the", 3)
    asking, silent = client(), {f"wc-count-{(task - FIRST) % 2}"}
    answer, asked = bolt.answer, list[str]()

    def unless_made(name: str, page: str, query: Mapping[str, str]) -> tuple[int, Any] | None:
        if name not in silent:
            return answer(name, page, query)
        asked.append(page)
        if len(asked) == 5:
            silent.clear()
        return 400, {"kind": "Status", "code": 400, "message": "address not allowed"}

    bolt.cluster.on_page = unless_made
    assert asking.get("count", "the") == 3
    assert len(asked) == 5
    silent.add("wc-count-0")
    asked.clear()
    assert kstorm("topology", "status", "wordcount", "--window", "0")[0] == 0
    assert "status" in asked


def test_unknown_component(bolt: Bolt, kstorm: Command) -> None:
    with pytest.raises(TopologyError, match="no component 'sink': it has count"):
        client().get("sink", "the")
    code, _, errors = kstorm("state", "scan", "hello", "count")
    assert (code, errors.count("\n")) == (2, 1)
    assert "there is no topology 'hello'" in errors


def test_too_long_key_is_refused(bolt: Bolt) -> None:
    with pytest.raises(ControlError, match=r"it takes 7,0\d\d characters of a URL"):
        client().get("count", "x" * 7000)
    for ask in (
        lambda: client().get("count", "\udc80"),
        lambda: list(client().scan("count", "\udc80")),
    ):
        with pytest.raises(ConfigError, match=r"'\\udc80' cannot be encoded as UTF-8"):
            ask()
    assert bolt.asked == []


def test_missing_right_to_the_proxy_is_named(bolt: Bolt, kstorm: Command) -> None:
    bolt.cluster.denied.add(("get", "pods/proxy"))
    code, _, errors = kstorm("state", "get", "wordcount", "count", "the")
    right = "a Role must allow the verb get on pods/proxy"
    assert (code, errors) == (
        2,
        f"kstorm: operator may not get pods/proxy in the namespace streams: {right}\n",
    )


def test_pod_of_the_cluster_uses_pod_addresses(bolt: Bolt, monkeypatch: pytest.MonkeyPatch) -> None:
    """It then needs no permission for the proxy."""
    bolt.put("the", 3)
    bolt.cluster.denied.add(("get", "pods/proxy"))
    for pod, address in zip(bolt.cluster.pods, ("10.0.0.1", "fd00::1"), strict=True):
        pod["status"]["podIP"] = address
    names = {"http://10.0.0.1:6066": "wc-count-0", "http://[fd00::1]:6066": "wc-count-1"}

    def question(
        url: str, page: str, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> tuple[int, Any] | None:
        return bolt.answer(names[url], page, query)

    def inside(namespace: str | None, context: str | None) -> Cluster:
        cluster = open_cluster(namespace, context)
        cluster.context = ""
        return cluster

    monkeypatch.setattr(status_targets, "query_page", question)
    monkeypatch.setattr(places, "open_cluster", inside)
    assert client().get("count", "the") == 3
    assert {each.read() for each in client().scan("count")} == {3}


def test_token_is_sent_with_the_login_of_kubernetes(
    bolt: Bolt, kstorm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The token comes from a file or the environment, and is never in a URL."""
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    bolt.put("the", 3)
    assert kstorm("state", "get", "wordcount", "count", "the", "--token-file", str(file))[0] == 0
    monkeypatch.setenv("KSTORM_STATE_TOKEN_FILE", str(file))
    assert client().get("count", "the") == 3
    asked = [
        {name.lower(): value for name, value in headers.items()}
        for headers, request in zip(bolt.cluster.headers, bolt.cluster.requests, strict=True)
        if "/state/" in request
    ]
    assert len(asked) == 2
    assert all(
        (each["x-kstorm-token"], each["authorization"]) == (TOKEN, "Bearer t") for each in asked
    )
    assert TOKEN not in str(bolt.cluster.requests)


class Local(HttpStub):
    """One process on this machine."""

    def __init__(self, bolt: Bolt, name: str) -> None:
        super().__init__()
        self._bolt, self._name = bolt, name

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = urlsplit(path)
        answer = self._bolt.answer(
            self._name, parts.path[1:], dict(parse_qsl(parts.query, keep_blank_values=True))
        )
        return answer or (404, {})


@pytest.fixture
def local(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bolt]:
    """Provides a bolt of two processes on this machine, listed in the file of their run."""
    monkeypatch.setenv("KSTORM_HOME", str(tmp_path))
    bolt = Bolt()
    with Local(bolt, "wc-count-0") as one, Local(bolt, "wc-count-1") as other:
        workers = [
            run_files.RunningWorker(f"count-{n}", "count", each.url)
            for n, each in enumerate((one, other))
        ]
        found = run_files.RunningTopology(OUTLINE, os.getpid(), "k:1", "z:1", workers)
        run_files.write(tmp_path / "runs" / "wordcount", found)
        yield bolt


def test_on_this_machine(local: Bolt, kstorm: Command, tmp_path: Path) -> None:
    """The command finds the run without an option, and keys may have any characters."""
    for key in ("the", "", "a/b?c&d=%2F ß"):
        local.put(key, {"n": key})
        assert client().get("count", key) == {"n": key}
    assert (
        kstorm("state", "get", "wordcount", "count", "the", "--runs", str(tmp_path / "runs"))[0]
        == 0
    )
    assert kstorm("state", "get", "hello", "count", "the", "--runs", str(tmp_path))[0] == 2
    assert (
        kstorm("state", "get", "wordcount", "count", "the", "--runs", str(tmp_path), "-n", "x")[0]
        == 2
    )


def test_follow_all_yields_changed_keys(local: Bolt) -> None:
    """The first result is everything. Later ones are new, changed and deleted keys.

    A limit must not look like a deletion.
    """
    local.put("a", 1), local.put("b", 1), local.put("x", 1)
    changes = client().follow_all("count", every=0.01)
    assert {each.key: each.read() for each in next(changes)} == {"a": 1, "b": 1, "x": 1}
    local.offsets = {"wc-count-0": 7, "wc-count-1": 7}  # a checkpoint without changes
    seen = len(local.asked)

    def later() -> None:
        if len(local.asked) == seen + 12:  # not in the first look, which covers four tasks
            local.put("a", 2), local.put("c", 1)
        if len(local.asked) == seen + 24:
            local.put("d", 1)

    local.on_asked = later
    changed: dict[str, Any] = {}
    while "d" not in changed:
        changed |= {each.key: each.read() for each in next(changes)}
    assert changed == {"a": 2, "c": 1, "d": 1}
    for row in local.rows:
        row.pop("b", None)
    (gone,) = next(changes)
    assert (gone.key, gone.there) == ("b", False)
    limited = client().follow_all("count", limit=2, every=0.01)
    first = [each.key for each in next(limited)]
    local.put(first[0], 3)
    assert [(each.key, each.read()) for each in next(limited)] == [(first[0], 3)]
    for row in local.rows:
        row.pop(first[0], None)
    assert all(each.there for each in next(limited))


def test_a_scan_is_followed(bolt: Bolt, kstorm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """The output has one line per key, or JSON objects."""
    task = bolt.put("the", 3)
    found = client().scan("count")
    (the,) = found
    gone = msgspec.structs.replace(the, value=msgspec.UNSET)

    def follow_all(*_: Any, **__: Any) -> Iterator[list[Any]]:
        yield [the]
        yield [gone]
        raise KeyboardInterrupt

    monkeypatch.setattr(StateClient, "follow_all", follow_all)
    code, told, _ = kstorm("state", "scan", "wordcount", "count", "--follow")
    lines = told.splitlines()
    assert code == 0
    assert [line[10:] for line in lines] == [
        f"the  3  (count:{task}, offset 6, 10:29:01 UTC)",
        f"the  no such key  (count:{task}, offset 6, 10:29:01 UTC)",
    ]
    told = kstorm("state", "scan", "wordcount", "count", "--follow", "--json")[1]
    assert [json.loads(line).get("value") for line in told.splitlines()] == [3, None]


def test_follow_gives_each_change(local: Bolt) -> None:
    """The first result is the present state. Later ones are changes, also deletions."""
    changes = client().follow("count", "the", every=0.01)
    assert next(changes) == []
    task = local.put("the", 3)
    assert [each.read() for each in next(changes)] == [3]
    local.offsets = {"wc-count-0": 7, "wc-count-1": 7}  # a checkpoint without a change of the value
    seen = len(local.asked)

    def later() -> None:
        if len(local.asked) == seen + 5:
            local.put("the", 4)

    local.on_asked = later
    assert [each.read() for each in next(changes)] == [4]
    del local.rows[task - FIRST]["the"]
    assert next(changes) == []

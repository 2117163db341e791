"""The page *Move a running topology*, followed from a real Storm to pods of the chart."""

import os
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.cluster.conftest import TAG
from tests.cluster.servers import running_servers
from tests.commands.storm_cluster import needed, running_storm
from tests.conftest import Eventually
from tests.e2e.kube import Kube, run
from tests.storm_move import PARTITIONS, Move
from tests.tutorial import ROOT

pytestmark = pytest.mark.timeout(1800)

NAMESPACE = "kstorm-move"
FIRST, SECOND, THIRD = 500, 5000, 5000
"""Sentences per partition: before the comparison, until Storm is killed, and afterwards."""
_WITHIN = 300
_CPU = """
import glob, os
ticks = 0
for name in glob.glob("/proc/[0-9]*/stat"):
    try:
        fields = open(name).read().rpartition(")")[2].split()
    except OSError:
        continue
    if name != f"/proc/{os.getpid()}/stat":
        ticks += int(fields[11]) + int(fields[12])
print(ticks / os.sysconf("SC_CLK_TCK"))
"""
"""Prints the CPU time of a pod's processes."""


@pytest.fixture
def move(tmp_path: Path) -> Iterator[Move]:
    """Write the files of the page, and create its topics. The page's addresses are the real ones.

    The page's commands use the current context's namespace, and the folder `helm` of a checkout.
    """
    needed()
    kube, kubeconfig = Kube(NAMESPACE), tmp_path / "kubeconfig"
    kubeconfig.write_text(Path(os.environ["KUBECONFIG"]).read_text())
    chosen = ("--kubeconfig", str(kubeconfig), "--current", "--namespace", NAMESPACE)
    run(["kubectl", "config", "set-context", *chosen])
    (tmp_path / "helm").symlink_to(ROOT / "helm")
    with running_servers(kube, TAG) as addresses:
        found = Move(addresses["kafka"], tmp_path, {"KUBECONFIG": str(kubeconfig)})
        found.write_files()
        cluster = tmp_path / "cluster.yaml"
        text = cluster.read_text()
        for name, address in addresses.items():
            text = text.replace(address.replace(address.partition(":")[0], name), address)
        values = yaml.safe_load(text)
        values["kafka"]["replicationFactor"] = 1
        values["image"] = {"tag": TAG}
        cluster.write_text(yaml.safe_dump(values))
        admin = AdminClient(found.settings.client_config)
        topics = [
            NewTopic(name, PARTITIONS, 1) for name in ("sentences", "counts", "counts-canary")
        ]
        for created in admin.create_topics(topics).values():
            created.result(60)
        yield found


def test_nothing_is_missing_and_only_messages_in_flight_are_repeated(
    move: Move, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """The pods continue exactly where the killed Storm has committed."""
    began = time.monotonic()
    with running_storm(move.settings.bootstrap_servers, move.folder, move.folder) as storm:
        move.produce(FIRST)
        eventually(partial(move.has, "counts", move.expected({})), _WITHIN)
        first_step = time.monotonic()
        move.execute("kubectl create configmap word-count-code")
        move.execute("SUFFIX=-canary kstorm values")
        eventually(partial(move.has, "counts-canary", move.expected({})), _WITHIN)
        move.execute("kubectl exec canary-acker-0")
        move.execute("kstorm values word_count:topology")
        before, cpu_before = move.words("counts").total(), storm.cpu_seconds()
        move.produce(SECOND)
        half = before + SECOND * PARTITIONS * 5 // 2
        eventually(lambda: move.words("counts").total() >= half, _WITHIN)
        cpu = storm.cpu_seconds() - cpu_before
        storm.kill()
    killed = time.time()
    by_storm = move.words("counts")
    storm_cost = cpu / (by_storm.total() - before) * 5e6
    rest = move.expected(move.committed())
    finished = move.expected({}) - rest
    assert move.expected({}) > by_storm > finished
    move.execute("kstorm migrate offsets --group storm-word-count --topology word-count --yes")
    taken_over = time.time()
    move.execute("helm upgrade word-count")
    eventually(partial(move.has, "counts", by_storm + rest), _WITHIN)
    done, last_step = time.time(), time.monotonic()
    first = min(stamp for stamp in move.stamps("counts") if stamp > killed)
    assert move.words("counts") - by_storm == rest
    cpu_before = _cpu_of_pods()
    move.produce(THIRD)
    eventually(partial(move.has, "counts", move.expected({})), _WITHIN)
    kstorm_cost = (_cpu_of_pods() - cpu_before) / (THIRD * PARTITIONS) * 1e6
    everything = move.words("counts")
    missing, twice = move.expected({}) - everything, everything - move.expected({})
    with capsys.disabled():
        print(
            f"\nsentences: {move.produced * PARTITIONS}, words by Storm: {by_storm.total()}, in "
            f"flight: {(by_storm - finished).total()}, by kstorm: {(everything - by_storm).total()}, "
            f"missing: {missing.total()}, twice: {twice.total()}; minutes from the first step to "
            f"the last: {(last_step - first_step) / 60:.1f} of {(last_step - began) / 60:.1f}; "
            f"seconds from Storm's end to the takeover: {taken_over - killed:.0f}, to the first "
            f"word: {first - killed:.0f}, to the last: {done - killed:.0f}; CPU seconds per "
            f"million sentences of 5 words: Storm {storm_cost:.0f}, kstorm {kstorm_cost:.0f}"
        )
    assert missing == Counter()
    assert twice == by_storm - finished


def _cpu_of_pods() -> float:
    """Return the CPU time of the release's pods."""
    kube = Kube(NAMESPACE)
    pods = kube.items("pods", "-l", "app.kubernetes.io/instance=word-count,kstorm.io/component")
    names = [pod["metadata"]["name"] for pod in pods]
    return sum(float(kube.kubectl("exec", name, "--", "python3", "-c", _CPU)) for name in names)

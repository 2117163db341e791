"""The guarantee on real servers: processes are killed, moved and paused, and every message is
accounted for."""

import re
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.integration.conftest import RunTopology
from tests.integration.engine import Engine, check_words

Run = Callable[..., Engine]
# a message timeout that no tree reaches on a busy machine, for tests without replays
LONG_SECS = 120.0


def sentences(count: int) -> list[str]:
    """Return sentences of ten words out of 499, so that every process sees every word repeatedly."""
    return [" ".join(f"w{(i * 7 + j * j) % 499}" for j in range(10)) for i in range(count)]


@pytest.fixture
def run(run_topology: RunTopology) -> Iterator[Run]:
    """A function that starts a topology for this test."""
    with ExitStack() as stack:
        yield lambda reference, **options: stack.enter_context(run_topology(reference, **options))


@pytest.mark.slow
def test_counts_are_exact_without_faults(run: Run) -> None:
    """Nothing is replayed, and every process stops without an error."""
    engine, text = run("wordcount", timeout_secs=LONG_SECS), sentences(4000)
    engine.produce(text)
    engine.await_done("sentences")
    assert check_words(engine, text) == Counter()
    assert engine.total("sentences", "failed") == 0
    assert engine.total("sentences", "acked") == 4000
    engine.stop()


def test_killed_acker_causes_no_replay(run: Run) -> None:
    """The ledger outlives its process, and its trees complete after the restart."""
    engine, text = run("wordcount", timeout_secs=LONG_SECS), sentences(6000)
    engine.produce(text[:5000])
    engine.await_total("sentences", "acked", 500)
    engine.worker("acker-0").process.kill()
    engine.produce(text[5000:])
    engine.await_done("sentences")
    assert engine.worker("acker-0").process.starts == 2
    assert check_words(engine, text) == Counter()
    assert engine.total("sentences", "failed") == 0


@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("count-0", marks=pytest.mark.slow),
        pytest.param("split-0", marks=pytest.mark.slow),
        pytest.param("sink-0", marks=pytest.mark.slow),
        pytest.param("sentences-0", marks=pytest.mark.slow),
    ],
)
def test_killed_process_loses_nothing(run: Run, victim: str) -> None:
    """It is killed during the work.

    Every word is counted at least once, and the counts are kept.
    """
    engine, text = run("wordcount", timeout_secs=8), sentences(6000)
    engine.produce(text[:5000])
    engine.await_total("split", "acked", 500)
    engine.worker(victim).process.kill()
    engine.produce(text[5000:])
    engine.await_done("sentences")
    assert engine.worker(victim).process.starts == 2
    check_words(engine, text)


@pytest.mark.slow
def test_processes_join_and_leave_under_load(run: Run) -> None:
    """Tasks move to the new processes and back, and nothing is lost."""
    engine, text = run("wordcount", timeout_secs=20), sentences(12000)
    engine.produce(text[:4000])
    engine.await_total("split", "acked", 500)
    for component in ("count", "split", "__acker", "sentences"):
        engine.processes.scale(component, 2)
    engine.produce(text[4000:8000])
    for component in ("count", "split", "__acker", "sentences"):
        engine.await_spread(component)
    engine.produce(text[8000:])
    engine.processes.scale("count", 1)
    engine.processes.scale("sentences", 1)
    engine.await_done("sentences")
    check_words(engine, text)


@pytest.mark.slow
def test_tasks_of_a_dead_process_move_within_ten_seconds(run: Run) -> None:
    """The group notices the death after the session timeout."""
    engine = run("wordcount")
    engine.processes.scale("split", 2)
    engine.await_spread("split")
    before = engine.total_tasks("split", 0)
    engine.worker("split-1").process.stop(0)  # SIGKILL at once, without a restart
    died = time.monotonic()
    engine.until(lambda: engine.total_tasks("split", 0) == 4, 30, "split-0 has all four tasks")
    took = time.monotonic() - died
    assert before < 4
    assert took < 10 + 15  # fifteen for a busy test machine


@pytest.mark.slow
def test_stopped_process_leaves_the_group_on_request(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other processes get its tasks at once.

    By default its place is kept until the session timeout, because it may return.
    """
    monkeypatch.setenv("KSTORM_LEAVE_ON_STOP", "true")
    engine, text = run("wordcount", timeout_secs=LONG_SECS), sentences(4000)
    engine.processes.scale("split", 2)
    engine.await_spread("split")
    engine.produce(text)
    engine.processes.scale("split", 1)
    assert engine.members("split") == [f"{engine.processes.topology.name}.split-split-0"]
    engine.until(lambda: engine.total_tasks("split", 0) == 4, 30, "split-0 has all four tasks")
    engine.await_done("sentences")
    assert check_words(engine, text) == Counter()


def test_diamond_with_a_join_acks_every_message(run: Run) -> None:
    """Tuples have several anchors, are held and acked later, and every seventh message fails once."""
    engine = run("diamond", timeout_secs=15)
    orders = [f"order-{number}" for number in range(2100)]
    engine.produce(orders)
    engine.await_done("orders")
    answers = Counter(record["order"] for record in engine.records())
    assert set(answers) == set(orders)
    assert engine.total("orders", "failed") == 300
    assert engine.total("orders", "acked") == 2100


def test_paused_process_writes_nothing_after_it_wakes_up(run: Run) -> None:
    """It was paused beyond its session, so another process has its tasks. It notices this and
    restarts its work.

    After a kill of all counting processes, the recovered counts are not too low.
    """
    engine, text = run("wordcount", timeout_secs=8), sentences(9000)
    engine.processes.scale("count", 2)
    engine.await_spread("count")
    engine.produce(text[:3000])
    engine.await_total("count", "executed", 3000)
    zombie, life = engine.worker("count-0").process, engine.life("count-0")
    zombie.pause()
    try:
        engine.until(lambda: engine.total_tasks("count", 1) == 4, 60, "count-1 has all four tasks")
        engine.produce(text[3000:6000])
        engine.await_total("count", "executed", 6000)
    finally:
        zombie.resume()
    engine.until(lambda: engine.life("count-0") not in (None, life), 60, "count-0 has begun anew")
    assert zombie.starts == 1
    for worker in engine.processes.of("count"):
        worker.process.kill()
    engine.produce(text[6000:])
    engine.await_done("sentences")
    check_words(engine, text)


@pytest.mark.slow
def test_stalled_spout_reports_the_reason(run: Run) -> None:
    """A gauge shows it at once, and the log after a while without completed trees (METRON-1888)."""
    engine, text = run("wordcount", timeout_secs=120), [f"w{number}" for number in range(6000)]
    spout, split = engine.worker("sentences-0"), engine.worker("split-0")

    def throttled() -> float:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{spout.web_port}/metrics", timeout=5
        ) as page:
            found = re.search(
                r"^kstorm_spout_throttled(?:{[^}]*})? (\S+)$", page.read().decode(), re.MULTILINE
            )
        assert found is not None
        return float(found[1])

    split.process.pause()
    engine.produce(text)
    engine.until(lambda: throttled() > 0, 60, "the gauge says that the spout is held back")
    engine.until(
        lambda: "spout_stalled" in spout.process.log_path.read_text(), 60, "the log says so"
    )
    assert (
        "allowed trees are in flight and none completed for" in spout.process.log_path.read_text()
    )
    split.process.resume()
    engine.await_done("sentences")
    assert throttled() == 0
    check_words(engine, text)

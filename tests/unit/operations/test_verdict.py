"""The reasons why a message is not done: every answer, from records of a small topology and facts."""

from collections.abc import Callable, Sequence
from math import inf
from typing import Any

import msgspec

from kstorm.cli.why import lines
from kstorm.core.dead_letters import DeadLetter
from kstorm.core.origins import Origin
from kstorm.introspection.outline import RetryPolicy
from kstorm.introspection.outline_builder import outline_of
from kstorm.kafka.finished_ranges import FinishedRange, Skipped
from kstorm.operations.trees.drawing import headline
from kstorm.operations.trees.facts import LetterFact, MessageFacts, MessageId
from kstorm.operations.trees.joined import TupleLetter, of_roots, tuple_letter
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_reader import TopicRecord
from kstorm.operations.trees.verdict import Verdict, VerdictKind, verdict_on
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import BasicBolt, BasicOutputCollector, Bolt, Tuple
from tests.unit.operations.rebuilding import End, Forgets, rebuilt, records, roots, topology

MESSAGE = MessageId("lines", 3, 100)
NOW = 60_000


class Raises(BasicBolt):
    def execute(self, tuple: Tuple, collector: BasicOutputCollector) -> None:
        raise ValueError(f"no such word {tuple['word']}")


def tree_of(
    second: Bolt | BasicBolt,
    change: Callable[[list[TopicRecord]], list[TopicRecord]] = lambda found: found,
) -> Tree:
    """Returns the first tree of one sentence. `change` edits its records."""
    feeder = FeederSpout("sentence")
    with LocalCluster(topology(feeder, second)) as cluster:
        feeder.feed(["the moon"], 0)
        cluster.run_until_idle()
        found = list(records(cluster))
        return rebuilt(cluster.topology, change(found), roots(found)[0])


def asked(trees: Sequence[Tree], **facts: Any) -> Verdict:
    known = {"holder": "sentences-0", "stored": 100, **facts}
    return verdict_on(
        MESSAGE, trees, MessageFacts(now=NOW, timeout_ms=known.pop("timeout_ms", 30_000), **known)
    )


def without(topic: str) -> Callable[[list[TopicRecord]], list[TopicRecord]]:
    return lambda found: [record for record in found if record.topic != topic]


EXECUTED = {("t.count", partition): 9 for partition in range(2)}


def test_forgotten_tuple_is_held() -> None:
    """Its frame is committed, and no ack has come."""
    verdict = asked(
        [tree_of(Forgets())],
        committed=EXECUTED,
        owners={("t.count", 0): "count-0", ("t.count", 1): "count-0"},
    )
    assert verdict.kind is VerdictKind.HELD
    assert verdict.said.startswith(
        "executed by count-0 (committed) and neither acked nor failed: the bolt holds or forgot it"
    )
    assert verdict.blocked[0].component == "count"
    assert f"count[{verdict.blocked[0].task}]" in verdict.said
    assert "it will be replayed" not in verdict.said
    assert "it should have been replayed by" in verdict.said  # the message is a minute old


def test_a_tuple_may_wait_for_its_retry_with_exactly_once() -> None:
    """A bolt then retries it without a record of the failure."""
    said = asked([tree_of(Forgets())], committed=EXECUTED, exactly_once=True).said
    assert "neither acked nor failed: the bolt holds, retries or forgot it" in said


class Holds(Bolt):
    """Never acks or fails a word, like a join that waits for the other half."""

    def execute(self, tuple: Tuple) -> None:
        pass


def test_each_half_that_a_join_holds_is_named() -> None:
    """The line has each half, because the other half is often the interesting one."""
    verdict = asked([tree_of(Holds())], committed=EXECUTED)
    assert len(verdict.blocked) == 2
    first, second = verdict.blocked
    assert f"; also {second.said}" in verdict.said
    assert verdict.said.startswith(first.said)
    assert " more" not in verdict.said
    assert len(list(lines(verdict))) == 1


def test_no_replay_with_exactly_once_or_without_a_timeout() -> None:
    tree = tree_of(Forgets())
    for facts in ({"exactly_once": True}, {"timeout_ms": inf}):
        assert "replayed" not in asked([tree], committed=EXECUTED, **facts).said


def test_queued_tuple_without_a_process() -> None:
    """The verdict has the number of frames before it."""
    verdict = asked([tree_of(Forgets())], owners={("t.split", 0): "split-0"})
    assert verdict.kind is VerdictKind.QUEUED
    assert verdict.said.startswith(
        f"queued at count[{verdict.blocked[0].task}], its frame is next, or being executed, no process"
    )
    later = tree_of(
        Forgets(),
        lambda found: [r._replace(offset=5312) if r.topic == "t.count" else r for r in found],
    )
    assert (
        "5,312 frames ahead, no process runs it"
        in asked([later], owners={("t.split", 0): "split-0"}).said
    )
    assert "no process" not in asked([later]).said  # the owners are unknown


def test_acker_behind() -> None:
    """All tuples are acked, but the acker has not read the acks."""
    tree = tree_of(End(), without("t.feeder.__completions"))
    verdict = asked([tree], ends={("t.__acker", 0): 52}, owners={("t.split", 0): "split-0"})
    assert (verdict.kind, verdict.said) == (
        VerdictKind.ACKER,
        "acked; acker 0 is 52 records behind, and no process runs it",
    )
    assert asked([tree], committed={("t.__acker", 0): 52}).kind is VerdictKind.NOT_TOLD


def test_complete_message_waits_for_its_offset() -> None:
    """The offset waits for earlier messages or for the next write."""
    tree = tree_of(End())
    assert asked([tree]).kind is VerdictKind.NOT_STORED
    assert "the oldest unfinished one is lines/3/17" in asked([tree], stored=17).said
    assert asked([tree], stored=101).kind is VerdictKind.DONE


def test_finished_range_gives_the_outcome() -> None:
    """The message is below the stored offset."""
    of = FinishedRange(v=1, start=90, end=110, at=50_000, n={"acked": 20})
    said = asked([], stored=110, finished=[of]).said
    assert said == "done at 00:00:50 UTC (10.0 s ago)"
    empty = msgspec.structs.replace(of, empty=[(100, 101)])
    assert "no tuple from it" in asked([], stored=110, finished=[empty]).said
    skipped = msgspec.structs.replace(
        of, skipped=[Skipped(100, 105, "kstorm offsets set", "anna@laptop")]
    )
    assert asked([], stored=110, finished=[skipped]).kind is VerdictKind.SKIPPED
    assert (
        asked([], stored=110, finished=[msgspec.structs.replace(of, dead=[(99, 101)])]).kind
        is VerdictKind.DEAD
    )


def test_message_that_was_replayed_is_done() -> None:
    """The range still has it as dead. With exactly once, its letter is gone before it is done."""
    of = FinishedRange(v=1, start=90, end=110, at=50_000, n={"acked": 20}, dead=[(100, 101)])

    def verdict(bolt: Bolt | BasicBolt, attempt: int, **facts: Any) -> Verdict:
        tree = tree_of(bolt)
        assert tree.init is not None
        init = msgspec.structs.replace(tree.init, origin=Origin("lines", 3, 100, attempt))
        news = [init if news is tree.init else news for news in tree.news]
        again = msgspec.structs.replace(tree, news=news)
        return asked([again], stored=110, finished=[of], **facts)

    replayed = verdict(End(), 2)
    assert replayed.kind is VerdictKind.DONE
    assert replayed.said.endswith(": replayed from its dead letter")
    assert verdict(End(), 1).kind is VerdictKind.DEAD, "another tuple of it has failed"
    assert verdict(Forgets(), 2).kind is VerdictKind.DEAD, "it has timed out"
    assert verdict(Forgets(), 2, exactly_once=True).kind is VerdictKind.QUEUED


def test_failure_shows_task_error_and_retry() -> None:
    """The note comes from the bolt's task."""
    tree = tree_of(Raises())
    retries = RetryPolicy(2000, 2.0, 60_000, 3)
    verdict = asked([tree], retries=retries, tasks={3: "count:3", 2: "count:2"})
    assert verdict.kind is VerdictKind.RETRY
    assert verdict.said.startswith("failed by count:")
    assert ": ValueError: no such word " in verdict.said
    assert "test_verdict.py:" in verdict.said
    at = tree.ended or 0
    assert f"waits for its retry at 00:00:0{(at + 2000) // 1000} UTC" in verdict.said
    used_up = asked([tree], retries=retries._replace(limit=0))
    assert "its retries are used up" in used_up.said


def test_a_dead_letter_is_named() -> None:
    """The verdict has its number and its reason."""
    verdict = asked([tree_of(Raises())], letters=[LetterFact(17, "failed 3 times")])
    assert (verdict.kind, verdict.said) == (VerdictKind.DEAD, "dead letter #17: failed 3 times")


CHECK = TupleLetter(304, "check", "ValueError", frozenset(["000000000000002a"]))


def test_a_message_is_done_except_for_its_dead_tuples() -> None:
    """The verdict names the letters.

    An open tree keeps its reason, and other messages their verdict.
    """
    tree = tree_of(End())
    done = asked([], stored=110, tuple_letters=[CHECK])
    assert (done.kind, done.letters, done.is_final) == (VerdictKind.EXCEPT, [304], True)
    assert done.said.startswith("done, except for one tuple: dead letter 304 (check: ValueError)")
    other = CHECK._replace(number=305, component="join", error="too_large")
    several = asked([], stored=110, tuple_letters=[CHECK, other])
    assert "2 tuples: dead letters 304 (check: ValueError), 305 (join: too_large)" in several.said
    complete = asked([tree], tuple_letters=[CHECK])
    assert complete.kind is VerdictKind.NOT_STORED
    assert complete.said.endswith("; except for one tuple: dead letter 304 (check: ValueError)")
    assert asked([], stored=110).kind is VerdictKind.DONE


def test_letters_are_joined_by_root() -> None:
    """The root may be of any tree of the message. Letters of whole messages have no roots."""
    assert of_roots([CHECK], [41, 42]) == [CHECK]
    assert of_roots([CHECK], [41, 43]) == []
    letter = DeadLetter(topology="t", component="check", task=2, reason="failed", kind="failed")
    assert tuple_letter(7, letter) is None
    joined = tuple_letter(7, msgspec.structs.replace(letter, roots=["000000000000002a"]))
    assert joined == TupleLetter(7, "check", "failed", CHECK.roots)


def test_the_headline_of_a_tree_names_its_dead_tuples() -> None:
    feeder = FeederSpout("sentence")
    tree = tree_of(End())
    shape = outline_of(topology(feeder, End()))
    mine = CHECK._replace(roots=frozenset([f"{tree.root:016x}"]))
    assert "except for one tuple: dead letter 304 (check: ValueError)" in headline(
        tree, shape, [CHECK, mine]
    )
    assert "except" not in headline(tree, shape, [CHECK])


def test_unread_message_shows_its_distance() -> None:
    assert (
        asked([], stored=40, emitted_to=59).said
        == "not read yet: 40 messages after the spout's position"
    )
    assert asked([], stored=40).kind is VerdictKind.NOT_READ
    assert (
        asked([], stored=None, holder=None).said
        == "not read yet; no spout holds the lock of its partition"
    )
    assert asked([], stored=40, deactivated=True).said.endswith("; the topology is deactivated")
    assert asked([], stored=40, emitted_to=200).kind is VerdictKind.NO_TREE


def test_tuple_acked_twice_is_never_complete() -> None:
    verdict = asked([tree_of(Forgets(), _acked_again)], timeout_ms=90_000)
    assert verdict.kind is VerdictKind.NEVER
    assert "executed twice by " in verdict.said
    assert "it will never be complete; it will be replayed at 00:01:3" in verdict.said


def _acked_again(found: list[TopicRecord]) -> list[TopicRecord]:
    """Repeats the last record of the acker."""
    last = max((r for r in found if r.topic == "t.__acker"), key=lambda record: record.offset)
    return [*without("t.feeder.__completions")(found), last._replace(offset=last.offset + 1)]


def test_tuple_without_a_record() -> None:
    """The record is in flight, or was lost with its process."""
    verdict = asked([tree_of(Forgets(), without("t.count"))])
    assert verdict.kind in (VerdictKind.ON_ITS_WAY, VerdictKind.UNSURE)
    assert "in no record" in verdict.said


def test_tree_without_its_init() -> None:
    verdict = asked([tree_of(Forgets(), without("t.__acker"))])
    assert verdict.kind is VerdictKind.ON_ITS_WAY


def test_incomplete_tree_of_an_attempt_decides() -> None:
    """A message may have several tuples."""
    done, open_one = tree_of(End()), tree_of(Forgets())
    for trees in ([done, open_one], [open_one, done]):
        assert asked(trees, committed=EXECUTED).kind is VerdictKind.HELD

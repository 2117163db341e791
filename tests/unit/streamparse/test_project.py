"""A project of streamparse runs unchanged, by the reference that `kstorm dev` gets."""

import logging
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from kstorm.errors import KstormError
from kstorm.runtime.base.settings import load_topology
from kstorm.streamparse import StreamparseBolt
from kstorm.testing import BoltTester, LocalCluster, complete_topology, simulate

REFERENCE = "topologies/phrases.py:PhraseCount"


def test_words_are_counted(project: Path) -> None:
    topology = load_topology(REFERENCE)
    with LocalCluster(topology, seed=1) as cluster:
        cluster.run_until_idle()
        counts = dict(cluster.emitted("count-bolt"))
        assert counts == {"a": 60, "rose": 60, "is": 40}
        assert sorted(cluster.emitted("split", "lengths"))[0] == ["a rose is a rose", 5]
        assert sorted(cluster.acked("phrases")) == [0, 1, 2, 3]
        assert cluster.errors == []


def test_the_topology_has_the_settings_of_its_class(
    project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        topology = load_topology(REFERENCE)
    assert topology.name == "phrase-count"
    assert topology.config.topology_max_spout_pending == 50
    count = topology.component("count-bolt")
    assert (count.parallelism, count.num_tasks) == (3, 3)
    assert count.config.topology_message_timeout_secs == 12
    assert str(count.inputs[0].grouping) == "fields word"
    assert [each for each in caplog.messages if "topology.workers" in each]


def test_a_module_names_it_too(project: Path) -> None:
    assert load_topology("topologies.phrases:PhraseCount").name == "phrase-count"


def test_unknown_names_are_refused_with_those_that_there_are(project: Path) -> None:
    with pytest.raises(KstormError, match=r"available: topologies\.phrases:PhraseCount"):
        load_topology("topologies/phrases.py:Phrase")
    with pytest.raises(KstormError, match="not a module of"):
        load_topology("/elsewhere/phrases.py:PhraseCount")


def test_testing_kit_takes_it(project: Path) -> None:
    topology = load_topology(REFERENCE)
    done = complete_topology(topology, {"phrases": [["to be or not to be"]]})
    assert sorted(word for word, _ in done.emitted("count-bolt")) == sorted(
        ["to", "be", "or", "not", "to", "be"]
    )
    simulate(
        partial(load_topology, REFERENCE),
        {"phrases": [["a rose"]]},
        lambda cluster: None,
        range(3),
    )


def test_a_test_of_the_project_imports_its_bolts(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(project / "src"))
    split = BoltTester(StreamparseBolt(import_module("bolts.words").SplitBolt), "phrase")
    split.give(["a rose"])
    assert split.emitted() == [["a"], ["rose"]]


def test_an_absent_module_is_refused_with_those_that_there_are(project: Path) -> None:
    with pytest.raises(ImportError, match=r"no module 'streamparse\.cli': it stands in for"):
        import_module("streamparse.cli")
    import_module("streamparse")
    assert issubclass(import_module("streamparse").bolt.Bolt, import_module("pystorm").Component)

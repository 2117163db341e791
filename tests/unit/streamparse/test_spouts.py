"""Spouts of streamparse, and the repetitions of a `ReliableSpout`."""

from typing import Any, ClassVar

import pytest

import kstorm.multilang
from kstorm.errors import TopologyError
from kstorm.kafka import KafkaHosts, KafkaSpout, SchemeAsMultiScheme, SpoutConfig, StringScheme
from kstorm.streamparse import (
    Bolt,
    Grouping,
    JavaBolt,
    JavaSpout,
    ReliableSpout,
    ShellBolt,
    ShellSpout,
    Spout,
    Stream,
    Topology,
    Tuple,
    kstorm_spec,
)
from kstorm.testing import FeederSpout, LocalCluster
from kstorm.topology import Topology as KstormTopology


def built(topology: Any) -> KstormTopology:
    """Build a topology's class. A type checker takes the result of the call for the class."""
    made: KstormTopology = topology()
    return made


class Numbers(ReliableSpout):
    outputs = ["number"]
    max_fails = 2
    most: ClassVar[int] = 2
    ended: ClassVar[list[Any]] = []

    def initialize(self, storm_conf: Any, context: Any) -> None:
        self.left = list(range(self.most))

    def next_tuple(self) -> None:
        if self.left:
            number = self.left.pop()
            self.emit([number], tup_id=f"n{number}")

    def ack(self, tup_id: Any) -> None:
        super().ack(tup_id)
        self.ended.append((tup_id, len(self.unacked_tuples)))


class Refuse(Bolt):
    seen: ClassVar[list[int]] = []
    auto_ack = False

    def process(self, tup: Tuple) -> None:
        self.seen.append(tup.values.number)
        if tup.values.number == 1:
            self.fail(tup)
        else:
            self.ack(tup)


class Retries(Topology):
    numbers = Numbers.spec()
    refuse = Refuse.spec(inputs=numbers)


def test_a_failed_tuple_comes_again_up_to_max_fails() -> None:
    Numbers.ended.clear()
    Refuse.seen.clear()
    with LocalCluster(built(Retries)) as cluster:
        cluster.run_until_idle()
        assert sorted(Refuse.seen) == [0, 1, 1, 1]
        assert sorted(id for id, _ in Numbers.ended) == ["n0", "n1"]
        assert cluster.errors == []


def test_a_reliable_spout_needs_ids() -> None:
    class Without(Numbers):
        def next_tuple(self) -> None:
            if self.left:
                self.emit([self.left.pop()])

    class Wrong(Topology):
        numbers = Without.spec()
        refuse = Refuse.spec(inputs=numbers)

    with LocalCluster(built(Wrong)) as cluster:
        cluster.run_until_idle()
        assert "tup_id" in str(cluster.errors[0].error)


class Endless(Spout):
    outputs = ["number"]
    config = {"topology.max.spout.pending": 10}

    def initialize(self, storm_conf: Any, context: Any) -> None:
        self.number = 0

    def next_tuple(self) -> None:
        self.number += 1
        self.emit([self.number])


class Never(Bolt):
    auto_ack = False

    def process(self, tup: Tuple) -> None: ...


def test_a_spout_without_ids_does_not_run_ahead_of_its_bolts() -> None:
    class Flood(Topology):
        numbers = Endless.spec()
        never = Never.spec(inputs=[numbers])

    with LocalCluster(built(Flood)) as cluster:
        cluster.run_until_idle(10_000)
        assert len(cluster.emitted("numbers")) == 10
        cluster.advance_time(46)  # they time out, and the next ones come
        assert len(cluster.emitted("numbers")) > 10
        assert cluster.errors == []


class Any2(Bolt):
    outputs = [Stream(["x"]), Stream(["x"], name="direct", direct=True)]

    def process(self, tup: Tuple) -> None: ...


def test_groupings_become_kstorms() -> None:
    class All(Topology):
        name = "all-of-them"
        s = Numbers.spec()
        a = Any2.spec(inputs={s: Grouping.SHUFFLE})
        b = Any2.spec(inputs={a: Grouping.GLOBAL, s: Grouping.ALL})
        c = Any2.spec(inputs={a["direct"]: Grouping.DIRECT, s["default"]: Grouping.NONE})
        d = Any2.spec(inputs={a: Grouping.fields(["x"]), s: Grouping.LOCAL_OR_SHUFFLE})
        e = Any2.spec(inputs=[a["direct"]])

    topology = built(All)
    assert topology.name == "all-of-them"
    found = {
        bolt.id: [(each.component, each.stream, str(each.grouping)) for each in bolt.inputs]
        for bolt in topology.bolts
    }
    assert found == {
        "a": [("s", "default", "shuffle")],
        "b": [("a", "default", "global"), ("s", "default", "all")],
        "c": [("a", "direct", "direct"), ("s", "default", "none")],
        "d": [("a", "default", "fields x"), ("s", "default", "shuffle")],
        "e": [("a", "direct", "direct")],
    }


def test_java_is_refused_by_name_with_a_remedy() -> None:
    class Java(Topology):
        pixels = JavaSpout.spec(
            name="pixel-spout",
            full_class_name="com.example.PixelSpout",
            args_list=[],
            outputs=["x"],
        )
        bolt = Any2.spec(inputs=[pixels])

    with pytest.raises(
        TopologyError, match=r"'pixel-spout' is the Java class com.example.PixelSpout"
    ):
        Java()

    class JavaToo(Topology):
        numbers = Numbers.spec()
        bolt = JavaBolt.spec(full_class_name="com.example.B", inputs=[numbers], outputs=["x"])

    with pytest.raises(TopologyError, match="ShellBolt"):
        JavaToo()

    class JavaGrouped(Topology):
        numbers = Numbers.spec()
        bolt = Any2.spec(inputs={numbers: Grouping.custom_object("com.example.G", [])})

    with pytest.raises(TopologyError, match=r"com\.example\.G.*CustomStreamGrouping"):
        JavaGrouped()


def test_a_spout_of_kstorm_takes_the_place_of_one_in_java() -> None:
    config = SpoutConfig(
        KafkaHosts(), "pixels", "/z", "pixels", scheme=SchemeAsMultiScheme(StringScheme())
    )

    class Pixels(Topology):
        pixels = kstorm_spec(KafkaSpout(config))
        bolt = Any2.spec(inputs=[pixels])

    assert isinstance(built(Pixels).component("pixels").component, KafkaSpout)

    class Fed(Topology):
        pixels = kstorm_spec(FeederSpout("x"), par=2, config={"topology.max.spout.pending": 3})
        bolt = Any2.spec(inputs={pixels: Grouping.fields("x")})

    fed = built(Fed)
    assert fed.component("pixels").num_tasks == 2
    assert fed.component("pixels").config.topology_max_spout_pending == 3


def test_programs_become_kstorms() -> None:
    class Programs(Topology):
        lines = ShellSpout.spec(command="node", script="lines.js --all", outputs=["line"])
        split = ShellBolt.spec(
            command="python3",
            script="split.py",
            inputs=[lines],
            par=2,
            outputs=[Stream(["word"]), Stream(["word"], name="direct", direct=True)],
            config={"topology.subprocess.timeout.secs": 5, "my.limit": 3},
        )

    topology = built(Programs)
    spout, bolt = topology.component("lines"), topology.component("split")
    assert isinstance(spout.component, kstorm.multilang.ShellSpout)
    assert isinstance(bolt.component, kstorm.multilang.ShellBolt)
    assert spout.component.command == ["node", "lines.js", "--all"]
    assert bolt.component.timeout_secs == 5
    assert (bolt.streams["direct"].direct, bolt.num_tasks) == (True, 2)
    assert bolt.config["my.limit"] == 3
    with pytest.raises(TopologyError, match="command of a ShellBolt is None"):
        ShellBolt.spec(script="split.py")


def test_mistakes_are_refused_with_their_names() -> None:
    with pytest.raises(TopologyError, match=r"Wrong.numbers is .*write numbers = Numbers.spec"):
        type("Wrong", (Topology,), {"numbers": Numbers})
    with pytest.raises(TopologyError, match="has no stream 'nope': its streams are 'default'"):
        Any2.spec(inputs=[Numbers.spec()["nope"]])
    with pytest.raises(TopologyError, match="Any2 has the input 'numbers'"):
        Any2.spec(inputs=["numbers"])  # type: ignore[list-item]
    with pytest.raises(TopologyError, match="par of Numbers is 0"):
        Numbers.spec(par=0)
    with pytest.raises(TopologyError, match="has no spout"):
        type("Empty", (Topology,), {})()

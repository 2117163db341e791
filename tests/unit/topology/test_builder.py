"""Topologies that `TopologyBuilder` rejects, with the object, its value and the remedy.

The other tests check valid topologies.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kstorm.errors import TopologyError
from kstorm.topology import (
    BasicBolt,
    Bolt,
    Config,
    CustomStreamGrouping,
    Fields,
    OutputFieldsDeclarer,
    Spout,
    StatefulBolt,
    TopologyBuilder,
)
from kstorm.topology.groupings import FieldsGrouping, NoneGrouping, ShuffleGrouping


class Words(Spout):
    """Declares a default stream, a named one and a direct one."""

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word", "count")
        declarer.declare_stream("errors", Fields("reason"))
        declarer.declare_stream("to-one", ["word"], direct=True)


class Echo(Bolt):
    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        declarer.declare("word")


class Silent(BasicBolt):
    """Declares nothing."""


class Remembering(StatefulBolt):
    """Has state."""


def with_spout(name: str = "t") -> TopologyBuilder:
    builder = TopologyBuilder(name)
    builder.set_spout("words", Words())
    return builder


def refused(wire: Callable[[TopologyBuilder], Any], *said: str) -> None:
    """Checks that wiring and building raise `TopologyError` with all these words."""

    def build() -> None:
        builder = with_spout()
        wire(builder)
        builder.build()

    with pytest.raises(TopologyError) as caught:
        build()
    for words in said:
        assert words in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", "a.b", "__x", "-x", "x" * 65, "ä", None, 7])
def test_ids_are_parts_of_topic_names(name: Any) -> None:
    """An id that is invalid in a topic name is refused, for topologies and components."""
    with pytest.raises(
        TopologyError, match=re.escape(f"topology id {name!r}: use 1 to 64 letters")
    ):
        TopologyBuilder(name)
    refused(
        lambda b: b.set_bolt(name, Silent()),
        f"component id {name!r}: use 1 to 64 letters",
        "topic names",
    )


def test_good_ids_are_taken() -> None:
    """An id has letters, digits, and also dashes and underscores after the first character."""
    assert TopologyBuilder("0a-b_C").name == "0a-b_C"


def test_a_topology_needs_a_spout() -> None:
    """Without a spout, nothing would be emitted."""
    with pytest.raises(TopologyError, match=r"topology 'empty' has no spout.*set_spout"):
        TopologyBuilder("empty").build()


def test_two_components_of_one_id() -> None:
    """An id can be used only once."""
    refused(lambda b: b.set_bolt("words", Silent()), "two components 'words'", "own id")


def test_wrong_kinds_of_components() -> None:
    """A spout is an instance of Spout, and a bolt an instance of Bolt or BasicBolt."""
    refused(lambda b: b.set_spout("s", Silent()), "spout 's' is a Silent", "Spout subclass")  # type: ignore[arg-type]
    refused(lambda b: b.set_bolt("b", Words()), "bolt 'b' is a Words", "Bolt or BasicBolt")  # type: ignore[arg-type]
    refused(lambda b: b.set_bolt("b", Silent), "bolt 'b' is a type", "instance")  # type: ignore[arg-type]


def test_subscribing_to_an_unknown_component() -> None:
    """The message lists the components."""
    refused(
        lambda b: b.set_bolt("b", Silent()).shuffle_grouping("wrods"),
        "'wrods'",
        "is not a component",
        "words, b",
    )


def test_subscribing_to_an_unknown_stream() -> None:
    """The message lists the streams."""
    refused(
        lambda b: b.set_bolt("b", Silent()).shuffle_grouping("words", "eror"),
        "'b'", "'eror'", "'words'", "'default', 'errors', 'to-one'",
    )  # fmt: skip


def test_subscribing_to_a_component_without_outputs() -> None:
    """The error states that the component declares nothing."""

    def wire(builder: TopologyBuilder) -> None:
        builder.set_bolt("silent", Silent()).shuffle_grouping("words")
        builder.set_bolt("b", Silent()).shuffle_grouping("silent")

    refused(wire, "its streams are none", "declare_output_fields")


def test_a_bolt_without_inputs() -> None:
    """It would never run."""
    refused(
        lambda b: b.set_bolt("lonely", Silent()),
        "bolt 'lonely' subscribes to nothing",
        ".shuffle_grouping",
    )


def test_subscribing_twice_to_one_stream() -> None:
    """A bolt has one grouping per stream."""
    refused(
        lambda b: b.set_bolt("b", Silent()).shuffle_grouping("words").all_grouping("words"),
        "'b' subscribes twice to the stream 'default' of 'words'", "keep one grouping",
    )  # fmt: skip


def test_fields_grouping_on_an_undeclared_field() -> None:
    """The message names the field and the fields of the stream."""
    for wire in (
        lambda b: b.set_bolt("b", Silent()).fields_grouping("words", Fields("word", "wrod")),
        lambda b: b.set_bolt("b", Silent()).partial_key_grouping("words", ["wrod"]),
    ):
        refused(wire, "bolt 'b'", "'wrod', which is not declared", "word, count")


def test_fields_grouping_without_fields_is_refused() -> None:
    """It would send everything to one task, which is `global_grouping`."""
    refused(
        lambda b: b.set_bolt("b", Silent()).fields_grouping("words", []),
        "has no fields",
        "name at least one",
        "global",
    )


def test_direct_streams_and_direct_groupings_belong_together() -> None:
    """A direct stream with another grouping is refused, and vice versa.

    Each error has its own remedy.
    """
    refused(
        lambda b: b.set_bolt("b", Silent()).direct_grouping("words"), "does not fit", "direct=True"
    )
    refused(
        lambda b: b.set_bolt("b", Silent()).all_grouping("words", "to-one"),
        "does not fit",
        "use direct_grouping",
    )


def test_invalid_grouping_is_refused() -> None:
    """A class, or a custom grouping without choose_tasks, is not treated as shuffle."""
    refused(
        lambda b: b.set_bolt("b", Silent()).grouping("words", FieldsGrouping),  # type: ignore[arg-type]
        "FieldsGrouping",
        "an instance",
    )
    refused(
        lambda b: b.set_bolt("b", Silent()).custom_grouping("words", object()),  # type: ignore[arg-type]
        "custom_grouping: grouping is <object object", "CustomStreamGrouping",
    )  # fmt: skip


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
def test_parallelism_is_a_positive_whole_number(value: Any) -> None:
    """The error shows any other value."""
    refused(
        lambda b: b.set_bolt("b", Silent(), value).shuffle_grouping("words"),
        f"parallelism of 'b' is {value!r}", "at least 1",
    )  # fmt: skip


@pytest.mark.parametrize("value", [0, "4", 2.0])
def test_task_counts_are_positive_whole_numbers(value: Any) -> None:
    """The error shows any other value."""
    refused(
        lambda b: b.set_bolt("b", Silent()).shuffle_grouping("words").set_num_tasks(value),
        f"number of tasks of 'b' is {value!r}", "at least 1",
    )  # fmt: skip


def test_more_executors_than_tasks() -> None:
    """Executors without a task would stay idle, because task counts are fixed."""
    refused(
        lambda b: b.set_bolt("b", Silent(), 4).set_num_tasks(3).shuffle_grouping("words"),
        "'b' has 3 tasks for a parallelism of 4", "set_num_tasks to at least 4",
    )  # fmt: skip


def test_too_many_tasks() -> None:
    """Task ids must fit into the ledger's rows."""
    refused(
        lambda b: b.set_bolt("b", Silent(), 65_535).shuffle_grouping("words"),
        "65536 tasks",
        "the maximum is 65535",
    )


def test_cycle_without_a_spout_is_refused() -> None:
    """The error names its bolts."""

    def wire(builder: TopologyBuilder) -> None:
        builder.set_bolt("a", Echo()).shuffle_grouping("b")
        builder.set_bolt("b", Echo()).shuffle_grouping("a")

    refused(wire, "no spout feeds 'a', 'b'", "connect one of them")


def test_a_cycle_that_a_spout_feeds() -> None:
    """It is valid, as in Storm."""
    builder = with_spout()
    builder.set_bolt("a", Echo()).shuffle_grouping("words").shuffle_grouping("b")
    builder.set_bolt("b", Echo()).shuffle_grouping("a")
    assert [bolt.id for bolt in builder.build().bolts] == ["a", "b"]


def test_streams_are_declared_once_and_do_not_look_internal() -> None:
    """The other refused names are empty ones and those with leading underscores."""

    class Bad(Bolt):
        def __init__(self, *streams: str) -> None:
            self.streams = streams

        def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
            for stream in self.streams:
                declarer.declare_stream(stream, "x")

    refused(
        lambda b: b.set_bolt("b", Bad("s", "s")).shuffle_grouping("words"),
        "'b'",
        "'s' twice",
        "once",
    )
    refused(
        lambda b: b.set_bolt("b", Bad("__tick")).shuffle_grouping("words"),
        "'__tick'",
        "does not start with",
    )
    refused(lambda b: b.set_bolt("b", Bad("")).shuffle_grouping("words"), "''", "use a name")


def test_settings_of_a_component() -> None:
    """They override the topology's settings, and the declarer's settings override both."""

    class Slow(Echo):
        def get_component_configuration(self) -> dict[str, Any]:
            return {"topology_tick_tuple_freq_secs": 5, "topology_debug": True}

    builder = TopologyBuilder("t", Config(topology_message_timeout_secs=9))
    builder.set_spout("words", Words()).set_max_spout_pending(7)
    builder.set_bolt("b", Slow()).shuffle_grouping("words").add_configurations(
        topology_tick_tuple_freq_secs=2
    )
    topology = builder.build()
    assert topology.component("words").config.topology_max_spout_pending == 7
    config = topology.component("b").config
    assert (config.topology_message_timeout_secs, config.topology_tick_tuple_freq_secs) == (9, 2)
    assert config.topology_debug is True
    assert topology.config.topology_tick_tuple_freq_secs is None


def test_wrong_settings_of_a_component() -> None:
    """The message names the component and the setting."""
    refused(
        lambda b: b.set_bolt("b", Silent()).shuffle_grouping("words").add_configurations(topology_tick=1),
        "configuration of 'b'", "no setting 'topology_tick'", "topology_tick_tuple_freq_secs",
    )  # fmt: skip
    refused(
        lambda b: b.set_spout("s", Words()).set_max_spout_pending(0),
        "configuration of 's'", "topology_max_spout_pending is 0", "above 0",
    )  # fmt: skip


def test_components_read_own_settings() -> None:
    """They may be set in its code or its wiring, or for the whole topology."""

    class Greeter(Echo):
        def get_component_configuration(self) -> dict[str, Any]:
            return {"greeting": "hello", "my.limit": 1}

    builder = TopologyBuilder("t", Config(own={"place": "farm", "greeting": "hi"}))
    builder.set_spout("words", Words())
    declarer = builder.set_bolt("b", Greeter()).shuffle_grouping("words")
    declarer.add_configuration("my.limit", 2).add_configurations(name="cow", own={"age": 7})
    topology = builder.build()
    assert topology.component("b").config.own == {
        "greeting": "hello",
        "my.limit": 2,
        "name": "cow",
        "age": 7,
        "place": "farm",
    }
    assert topology.component("words").config.own == {"place": "farm", "greeting": "hi"}


@pytest.mark.parametrize("value", [0, -1, 1.5, "2", True, None])
def test_wrong_count_is_refused_immediately(value: Any) -> None:
    """The error comes before `build`, at the line of the mistake."""
    builder = with_spout()
    with pytest.raises(TopologyError, match=re.escape(f"parallelism of 's' is {value!r}")):
        builder.set_spout("s", Words(), value)
    with pytest.raises(TopologyError, match=re.escape(f"parallelism of 'b' is {value!r}")):
        builder.set_bolt("b", Silent(), value)
    declarer = builder.set_bolt("b", Silent())
    with pytest.raises(TopologyError, match=re.escape(f"number of tasks of 'b' is {value!r}")):
        declarer.set_num_tasks(value)


def test_every_grouping_is_recorded() -> None:
    """Each method adds one input with its stream. Local-or-shuffle is shuffle."""

    class Custom(CustomStreamGrouping):
        def choose_tasks(self, task: int, values: Sequence[Any]) -> Sequence[int]:
            return []

    builder = with_spout()
    builder.set_spout("other", Words())
    builder.set_bolt("echo", Echo()).none_grouping("words").local_or_shuffle_grouping("other")
    bolt = (
        builder.set_bolt("b", Silent())
        .custom_grouping("words", Custom())
        .global_grouping("words", "errors")
    )
    bolt.direct_grouping("words", "to-one").fields_grouping("other", "word").partial_key_grouping(
        "echo", Fields("word")
    )
    topology = builder.build()
    kinds = [
        (i.component, i.stream, type(i.grouping).__name__) for i in topology.component("b").inputs
    ]
    assert kinds == [
        ("words", "default", "CustomGrouping"),
        ("words", "errors", "GlobalGrouping"),
        ("words", "to-one", "DirectGrouping"),
        ("other", "default", "FieldsGrouping"),
        ("echo", "default", "PartialKeyGrouping"),
    ]
    assert [i.grouping for i in topology.component("echo").inputs] == [
        NoneGrouping(),
        ShuffleGrouping(),
    ]
    assert [(spec.id, grouping) for spec, grouping in topology.consumers("other", "default")] == [
        ("echo", ShuffleGrouping()),
        ("b", FieldsGrouping(Fields("word"))),
    ]


def test_methods_that_must_be_written() -> None:
    """The error names the missing method of the subclass."""
    for call in (
        lambda: Spout().next_tuple(),
        lambda: Bolt().execute(None),  # type: ignore[arg-type]
        lambda: BasicBolt().execute(None, None),  # type: ignore[arg-type]
        lambda: CustomStreamGrouping().choose_tasks(1, []),
    ):
        with pytest.raises(NotImplementedError, match="does not define"):
            call()

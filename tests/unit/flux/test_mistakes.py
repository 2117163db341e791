"""Mistakes in a file are reported with their place and remedy, and without a stack trace.

YAML tags cannot create objects.
"""

import time
from pathlib import Path

import pytest

from kstorm.errors import KstormError
from kstorm.flux import load_file
from tests.unit.flux.conftest import WIRED, Written
from tests.unit.flux.storm import Limits
from tests.unit.flux.storm import TestEnum as StormEnum

STORM = "tests.unit.flux.storm"
SPOUT = f"spouts: [{{id: words, class: '{STORM}:TestWordSpout'}}]\n"


def bolt(definition: str) -> str:
    """Writes a topology whose bolt has this definition, from line 6 on."""
    return f"""name: t
spouts:
  - id: words
    class: {STORM}:TestWordSpout
bolts:
  - id: log
    {definition}
streams:
  - {{from: words, to: log, grouping: {{type: SHUFFLE}}}}
"""


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: [", "t.yaml:1:8: "),
        ("name: a\nname: b\n", "t.yaml:2:1: the key 'name' appears twice: keep one"),
        ("- name", "t.yaml:1:1: the file must be a mapping, but is a list"),
        ("name: 3", "t.yaml:1:7: name must be text, but is a whole number"),
        (
            "naem: t",
            "t.yaml:1:1: there is no key 'naem' in a topology's file; did you mean 'name'?",
        ),
        ("spouts: {}", "t.yaml:1:9: spouts must be a list, but is a mapping"),
        ("name: t\n---\nname: u", "t.yaml:2:1: but found another document"),
        (
            "spouts: [{id: x, className: a}]",
            "t.yaml:1:18: 'className' is a key of Storm's Flux: write class: package.module:Class",
        ),
        (
            "bolts: [{id: x, numTasks: 3}]",
            "t.yaml:1:17: 'numTasks' is a key of Storm's Flux: write tasks",
        ),
        (
            "workerHooks: []",
            (
                "is a key of Storm's Flux: kstorm has no worker hooks; create what a process needs in "
                "open() of its spout"
            ),
        ),
        ("spouts:\n  - id: x\n", "t.yaml:2:5: spouts[0] has no 'class': add it"),
        (
            "spouts: [{id: x, class: 'a:b', parallelism: two}]",
            "t.yaml:1:45: spouts[0].parallelism must be a whole number, but is text",
        ),
        (
            "spouts: [{id: x, class: 'a:b', parallelism: 0}]",
            "t.yaml:1:45: spouts[0].parallelism must be a whole number >= 1",
        ),
        (
            "streams: [{from: a, to: b, grouping: {type: shuffle}}]",
            "t.yaml:1:45: streams[0].grouping.type: 'shuffle' is not one of ALL, CUSTOM, DIRECT, FIELDS",
        ),
        ("", "t.yaml: the topology has no name: add name"),
        ("name: t.t\n", "t.yaml:1:7: topology id 't.t': use 1 to 64 letters"),
        ("name: t\n", "t.yaml: topology 't' has no spout"),
        (
            "name: t\nconfig: {topology.debug: true}\n" + WIRED,
            "t.yaml:2:26: there is no setting 'topology.debug': did you mean",
        ),
        (
            "name: t\nconfig: {topology_max_spout_pending: 0}\n" + WIRED,
            "t.yaml:2:38: topology_max_spout_pending is 0",
        ),
        (
            "name: t\n" + SPOUT + SPOUT.replace("words", "lines"),
            "t.yaml:3:1: the key 'spouts' appears twice",
        ),
        ("name: t\nspouts: [&a {id: x, class: *a}]", "t.yaml:2:10: this value contains itself"),
    ],
)
def test_invalid_file_is_refused(written: Written, text: str, says: str) -> None:
    """This covers syntax, keys, types and settings."""
    with pytest.raises(KstormError) as caught:
        written(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        (
            "class: LogInfoBolt",
            "t.yaml:7:12: the class 'LogInfoBolt' does not have the form package.module:attribute",
        ),
        (
            f"class: {STORM}:LogInfBolt",
            f"t.yaml:7:12: the class '{STORM}:LogInfBolt': the module {STORM} has no 'LogInf",
        ),
        (
            "class: nowhere:Bolt",
            "t.yaml:7:12: the class 'nowhere:Bolt': there is no module 'nowhere'",
        ),
        (f"class: {STORM}:WORDS", f"t.yaml:7:12: '{STORM}:WORDS' is a list, not a class"),
        (
            f"class: {STORM}:TestWordSpout",
            "t.yaml:6:5: bolt 'log' is a TestWordSpout: give set_bolt an instance",
        ),
        (f"class: {STORM}:LogInfoBolt\n    args: [1]", "t.yaml:6:5: LogInfoBolt(): "),
        (
            f"class: {STORM}:TestBolt\n    args: [BAZ]",
            "t.yaml:6:5: te is 'BAZ': it must be one of FOO, BAR",
        ),
        (
            f"class: {STORM}:TestBolt\n    args: [{{ref: none}}]",
            "t.yaml:8:12: there is no component 'none': the components are none",
        ),
        (f"class: {STORM}:TestBolt\n    args: [{{ref: [none]}}]", "there is no component ['none']"),
        (
            f"class: {STORM}:TestBolt\n    factory: make",
            "t.yaml:8:14: TestBolt has no method 'make': it has ",
        ),
        (
            f"class: {STORM}:TestBolt\n    factory: __new__",
            "t.yaml:8:14: TestBolt has no method '__new__'",
        ),
        (
            f"class: {STORM}:TestBolt\n    args: [FOO]\n    config_methods: [{{name: with_fo}}]",
            "t.yaml:9:29: TestBolt has no method 'with_fo': it has ",
        ),
        (
            f"class: {STORM}:TestBolt\n    args: [FOO]\n    properties: [{{name: colour, value: 1}}]",
            "t.yaml:9:18: TestBolt has no property 'colour': it has bar, ",
        ),
        (
            f"class: {STORM}:TestBolt\n    args: [FOO]\n    properties: [{{name: __class__, value: 1}}]",
            "t.yaml:9:18: TestBolt has no property '__class__'",
        ),
        (
            f"class: {STORM}:TestBolt\n    args: [FOO]\n    properties: [{{name: level}}]",
            "t.yaml:9:18: the property 'level' needs one of value, ref and reflist, but has none",
        ),
        (
            "class: kstorm.kafka:KafkaHosts\n    args: [a, -1]",
            "t.yaml:6:5: KafkaHosts: refresh_freq_secs is -1",
        ),
        (
            "class: kstorm.kafka:KafkaHosts\n    properties: [{name: refresh, value: 1}]",
            "t.yaml:8:17: KafkaHosts has no property 'refresh': it has bootstrap_servers, refresh_freq_secs",
        ),
        (
            "class: kstorm.kafka:KafkaHosts\n    properties: [{name: refresh_freq_secs, value: 0}]",
            "t.yaml:8:17: KafkaHosts: refresh_freq_secs is 0",
        ),
        (
            f"class: {STORM}:LogInfoBolt\n    parallelism: 2\n    tasks: 1",
            "t.yaml:6:5: 'log' has 1 tasks for a parallelism of 2",
        ),
        (
            "class: !!python/object/apply:os.system [ls]",
            "could not determine a constructor for the tag",
        ),
        ("class: !!python/name:os.system", "could not determine a constructor for the tag"),
    ],
)
def test_invalid_component_is_refused(written: Written, definition: str, says: str) -> None:
    """This covers its class, arguments, methods and properties."""
    with pytest.raises(KstormError) as caught:
        written(bolt(definition))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("stream", "says"),
    [
        (
            "{from: words, to: lag, grouping: {type: SHUFFLE}}",
            "t.yaml:8:25: there is no bolt 'lag': the bolts are 'log'",
        ),
        (
            "{from: lines, to: log, grouping: {type: SHUFFLE}}",
            (
                "t.yaml:8:14: there is no spout or bolt 'lines': the spouts and bolts are 'words', "
                "'log'"
            ),
        ),
        (
            "{from: words, to: log, grouping: {type: FIELDS}}",
            "t.yaml:8:40: a grouping of type FIELDS needs args: the names of its fields",
        ),
        (
            "{from: words, to: log, grouping: {type: ALL, args: [a]}}",
            "t.yaml:8:40: a grouping of type ALL takes no args",
        ),
        (
            "{from: words, to: log, grouping: {type: CUSTOM}}",
            "t.yaml:8:40: a grouping of type CUSTOM needs a custom_class",
        ),
        (
            f"{{from: words, to: log, grouping: {{type: ALL, custom_class: {{class: '{STORM}:NGrouping'}}}}}}",
            "t.yaml:8:40: a grouping of type ALL takes no custom_class",
        ),
        (
            f"{{from: words, to: log, grouping: {{type: CUSTOM, custom_class: {{class: '{STORM}:TestClass', args: [a]}}}}}}",
            "it must be a CustomStreamGrouping",
        ),
        (
            "{from: words, to: log, grouping: {type: FIELDS, args: [wort]}}",
            (
                "t.yaml:8:7: bolt 'log', stream 'default' of 'words': a fields grouping has the field "
                "'wort', which is not declared"
            ),
        ),
        (
            "{from: words, to: log, grouping: {type: SHUFFLE, stream_id: other}}",
            "t.yaml:8:7: bolt 'log' subscribes to the stream 'other' of 'words', which does not declare it",
        ),
    ],
)
def test_invalid_stream_is_refused(written: Written, stream: str, says: str) -> None:
    """This covers its ends and its grouping."""
    text = f"""name: t
spouts:
  - {{id: words, class: '{STORM}:TestWordSpout'}}
bolts:
  - {{id: log, class: '{STORM}:LogInfoBolt'}}

streams:
    - {stream}
"""
    with pytest.raises(KstormError) as caught:
        written(text)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            f"name: u\ntopology_source: {{function: '{STORM}:simple_topology', args: [a, b]}}",
            "t.yaml:1:7: the name is 'u', but",
        ),
        (
            f"topology_source: {{function: '{STORM}:simple_topology', args: [a]}}",
            "missing a required argument: 'suffix'",
        ),
        (
            f"topology_source: {{function: '{STORM}:no_topology'}}",
            ":no_topology returned a str, not a Topology",
        ),
        (
            f"config: {{a: 1}}\ntopology_source: {{function: '{STORM}:no_topology'}}",
            "t.yaml:1:13: ",
        ),
        (f"topology_source: {{function: '{STORM}:WORDS'}}", ":WORDS' is a list, not a function"),
        (
            f"topology_source: {{function: '{STORM}:nothing'}}",
            "t.yaml:1:29: the function 'tests.unit.flux.storm:nothing'",
        ),
    ],
)
def test_invalid_topology_source_is_refused(written: Written, text: str, says: str) -> None:
    """The error shows the function's missing parameter or wrong result."""
    with pytest.raises(KstormError) as caught:
        written(text)
    assert says in str(caught.value)


def test_components_in_a_circle(written: Written) -> None:
    """Each needs the other. Without a circle, their order in the file does not matter."""
    circle = f"""name: t
components:
  - {{id: a, class: '{STORM}:Configured', args: [ref: b]}}
  - {{id: b, class: '{STORM}:Configured', args: [ref: a]}}
"""
    bolt_of_a = f"bolts: [{{id: log, class: '{STORM}:ConfiguredBolt', args: [ref: a]}}]\n"
    wired = WIRED.replace(WIRED[WIRED.index("bolts:") : WIRED.index("streams:")], bolt_of_a)
    with pytest.raises(
        KstormError, match=r"t\.yaml:4:63: the component 'a' needs itself: a → b → a"
    ):
        written(circle + wired)
    forward = circle.replace(", args: [ref: a]}", "}")
    made = written(forward + wired).component("log").component
    assert isinstance(made.args[0].args[0], object)  # type: ignore[attr-defined]


def test_a_component_is_one_object(written: Written) -> None:
    """All references return the same object."""
    text = f"""name: t
components:
  - {{id: shared, class: '{STORM}:Configured'}}
spouts:
  - {{id: words, class: '{STORM}:TestWordSpout'}}
bolts:
  - {{id: one, class: '{STORM}:ConfiguredBolt', args: [{{deep: [ref: shared]}}]}}
  - {{id: two, class: '{STORM}:ConfiguredBolt', args: [reflist: [shared, shared]]}}
streams:
  - {{from: words, to: one, grouping: {{type: SHUFFLE}}}}
  - {{from: one, to: two, grouping: {{type: LOCAL_OR_SHUFFLE}}}}
"""
    one, two = (spec.component for spec in written(text).bolts)
    shared = one.args[0]["deep"][0]  # type: ignore[attr-defined]
    assert two.args == ([shared, shared],)  # type: ignore[attr-defined]


def test_returned_copy_of_a_config_method_is_used(written: Written) -> None:
    """The methods of a frozen object return a copy. Other results are ignored."""
    text = f"""name: t
components:
  - id: limits
    class: {STORM}:Limits
    properties: [{{name: guarantee, value: BAR}}]
    config_methods: [{{name: with_rows, args: [3]}}, {{name: total}}]
spouts:
  - {{id: words, class: '{STORM}:TestWordSpout'}}
bolts:
  - {{id: log, class: '{STORM}:ConfiguredBolt', args: [ref: limits]}}
streams:
  - {{from: words, to: log, grouping: {{type: SHUFFLE}}}}
"""
    (limits,) = written(text).component("log").component.args  # type: ignore[attr-defined]
    assert limits == Limits(3, StormEnum.BAR)


@pytest.mark.parametrize(
    "value",
    [
        "!!int ''",
        "!!bool x",
        "!!timestamp x",
        "!!float x",
        "2020-02-31",
        pytest.param("[" * 2000 + "]" * 2000, id="deep"),
        "\x1f",
    ],
)
def test_a_value_that_yaml_does_not_read(written: Written, value: str) -> None:
    """The library's exceptions are reported as mistakes in the file."""
    with pytest.raises(KstormError, match=r"t\.yaml"):
        written(f"name: t\nconfig: {{it: {value}}}\n")


def test_missing_file_is_named() -> None:
    with pytest.raises(
        KstormError,
        match=r"the topology's file no/such\.yaml cannot be read: no such file or directory",
    ):
        load_file(Path("no/such.yaml"))
    with pytest.raises(KstormError, match="is not the path of a file"):
        load_file(Path("a\0.yaml"))


SPOUT_ON = """name: t
components:
  - id: scheme
    class: kstorm.kafka:StringScheme
  - id: multi
    class: kstorm.kafka:SchemeAsMultiScheme
    args: [ref: scheme]
  - id: hosts
    class: kstorm.kafka:KafkaHosts
  - id: source
    class: kstorm.kafka:SpoutConfig
    args:
      - ref: hosts
      - {topic}
    kwargs: {{id: lines, scheme: {{ref: multi}}, {more}}}
spouts:
  - id: words
    class: kstorm.kafka:KafkaSpout
    args: [ref: source]
bolts:
  - {{id: log, class: 'tests.unit.flux.storm:LogInfoBolt'}}
streams:
  - {{from: words, to: log, grouping: {{type: SHUFFLE}}}}
"""


@pytest.mark.parametrize(
    ("topic", "more", "says"),
    [
        ("20261123", "", "t.yaml:14:9: topic is 20261123: it must be text; YAML reads it as text"),
        ("on", "", "t.yaml:14:9: topic is True: it must be text; YAML reads it as text"),
        ("", "", "t.yaml:14:8: topic is None: it must be text"),
        ("2026-11-23", "", "t.yaml:14:9: topic is datetime.date(2026, 11, 23): it must be text"),
        ("10:30", "", "t.yaml:14:9: 10:30 means 630 in YAML: write 630 for the number, or '10:30'"),
        (
            "012",
            "",
            "t.yaml:14:9: 012 means 10 in YAML: write 10 for the number, or '012' for text",
        ),
        ("[a]", "", "t.yaml:14:9: topic is ['a']: it must be text"),
        ("a", "ignore_zk_offsets: 'false'", ": ignore_zk_offsets is 'false': it must be True or"),
        ("a", "retry_limit: true", "t.yaml:15:60: retry_limit is True: it must be a whole number"),
        ("a", "retry_limit: 1.5", "t.yaml:15:60: retry_limit is 1.5: it must be a whole number"),
        (
            "a",
            "retry_delay_multiplier: '2'",
            ": retry_delay_multiplier is '2': it must be a number",
        ),
        ("a", "retry_delay_max_ms: 1:00", ": 1:00 means 60 in YAML"),
        ("a", "zk_servers: a", ": zk_servers is 'a': it must be a list of text or None"),
    ],
)
def test_a_value_is_checked_against_the_annotation(
    written: Written, topic: str, more: str, says: str
) -> None:
    """The check runs when the file is loaded, not when a task starts.

    The error has line and column.
    """
    with pytest.raises(KstormError) as caught:
        written(SPOUT_ON.format(topic=topic, more=more))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("10:30", "t.yaml:2:19: 10:30 means 630 in YAML: write 630 for the number, or '10:30'"),
        ("012", "t.yaml:2:19: 012 means 10 in YAML: write 10 for the number, or '012' for text"),
        ("on", "t.yaml:2:19: the key on means True in YAML: write 'on' for text"),
        ("No", "t.yaml:2:19: the key No means False in YAML: write 'No' for text"),
        ("~", "t.yaml:2:19: the key ~ means None in YAML: write '~' for text"),
        ("2026-11-23", "t.yaml:2:19: the key 2026-11-23 means 2026-11-23 in YAML"),
    ],
)
def test_a_key_that_yaml_reads_as_another_type_is_refused(
    written: Written, key: str, says: str
) -> None:
    """A bolt would look up its text, and not find it. Numbers and texts in quotes are keys."""
    with pytest.raises(KstormError) as caught:
        written(f"name: t\nconfig: {{rates: {{ {key}: 1}}}}\n" + WIRED)
    assert says in str(caught.value)
    found = written(f"name: t\nconfig: {{rates: {{'{key}': 1, 5: 2}}}}\n" + WIRED)
    assert found.config["rates"] == {key: 1, 5: 2}


def test_values_in_quotes_are_text(written: Written) -> None:
    """This holds for every text in quotes."""
    for topic in ("'20261123'", "'on'", "'10:30'", '"012"'):
        spout = written(SPOUT_ON.format(topic=topic, more="retry_limit: 3")).component("words")
        assert spout.component.spout_config.topic == topic.strip("'\"")  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["lists", "mappings", "merges"])
def test_aliases_of_aliases_are_refused_at_once(written: Written, kind: str) -> None:
    """Forty levels would give 2**40 values."""
    one = {
        "lists": "[*{0}, *{0}]",
        "mappings": "{{a: *{0}, b: *{0}}}",
        "merges": "{{<<: [*{0}, *{0}]}}",
    }
    lines = ["name: t", "config:", "  l0: &l0 " + ("{a: 1}" if kind == "merges" else "[1]")]
    lines += [f"  l{n}: &l{n} {one[kind].format(f'l{n - 1}')}" for n in range(1, 41)]
    began = time.process_time()
    with pytest.raises(
        KstormError, match=r"t\.yaml:\d+:\d+: with its aliases, this value has more"
    ):
        written("\n".join(lines) + WIRED)
    assert time.process_time() - began < 5

"""`${name}` and `${ENV-NAME}`: values from files and the environment, which stay plain values."""

from typing import Any

import pytest

from kstorm.errors import KstormError
from tests.unit.flux.conftest import WIRED, Written


def own(written: Written, text: str, properties: str | None = None, **environment: str) -> Any:
    """Returns the setting `it` of a topology, given as `text`."""
    return written(f"name: t\nconfig:\n  it: {text}\n{WIRED}", properties, environment).config["it"]


@pytest.mark.parametrize(
    ("text", "value", "becomes"),
    [
        ("${ENV-X}", "7", 7),
        ("${ENV-X}", "0.5", 0.5),
        ("${ENV-X}", "true", True),
        ("${ENV-X}", "", None),
        ("${ENV-X}", "a word", "a word"),
        ("${ENV-X}", "22:30", "22:30"),
        ("${ENV-X}", "2020-02-31", "2020-02-31"),
        ("${ENV-X}", "<<", "<<"),
        ("${ENV-X}", "=", "="),
        ("${ENV-X}", "[2020-02-31, <<, 'on', on]", ["2020-02-31", "<<", "on", True]),
        ("${ENV-X}", "localhost:2181,other:2181", "localhost:2181,other:2181"),
        ("${ENV-X}", "[1, two, '3']", [1, "two", "3"]),
        ('"${ENV-X}"', "7", "7"),
        ("'${ENV-X}'", "[1, 2]", "[1, 2]"),
        ("1${ENV-X}", "7", 17),
        ("kafka:${ENV-X}/x", "9092", "kafka:9092/x"),
        ("[a, '${ENV-X}']", "b", ["a", "b"]),
        ("{'${ENV-X}': '${ENV-X}'}", "b", {"${ENV-X}": "b"}),
        ("$${ENV-X}", "7", "${ENV-X}"),
        ("'$${ENV-X} ${ENV-X}'", "7", "${ENV-X} 7"),
        ("${ENV-X}", "${ENV-Y}", "${ENV-Y}"),
    ],
)
def test_values_are_replaced(written: Written, text: str, value: str, becomes: object) -> None:
    """An unquoted value is read as YAML, and a quoted one is text.

    Keys are not replaced, and values are replaced only once.
    """
    assert own(written, text, X=value) == becomes


@pytest.mark.parametrize(
    "value",
    [
        "{a: 1}",
        "a: 1",
        "x\nname: other",
        "x' , b: '",
        "!!python/object/apply:os.system [ls]",
        "*words",
        "# no",
        "&a b",
        "- a",
        "| a",
    ],
)
def test_a_value_is_never_more_than_a_value(written: Written, value: str) -> None:
    """It cannot add a key, an alias, a tag or a comment."""
    for text in ("${ENV-X}", "'${ENV-X}'"):
        topology = written(f"name: t\nconfig:\n  it: {text}\n{WIRED}", None, {"X": value})
        assert topology.config["it"] == value
        assert (topology.name, list(topology.components)) == ("t", ["words", "log"])


def test_numbers_and_settings_can_be_replaced(written: Written) -> None:
    """This includes parallelism, tasks and settings of kstorm."""
    text = "name: ${topology}\nconfig:\n  topology_debug: ${debug}\n" + WIRED
    text = text.replace("'${debug}'", "${debug}").replace(
        "LogInfoBolt", "LogInfoBolt\n    parallelism: ${log.workers}\n    tasks: ${ENV-TASKS}"
    )
    topology = written(
        text, "# of a site\ntopology = here\n\n! too\nlog.workers: 3\ndebug=true\n", {"TASKS": "6"}
    )
    log = topology.component("log")
    assert (topology.name, topology.config.topology_debug, log.parallelism, log.num_tasks) == (
        "here",
        True,
        3,
        6,
    )


@pytest.mark.parametrize(
    ("text", "properties", "says"),
    [
        (
            "${ENV-NO}",
            None,
            "t.yaml:3:7: ${ENV-NO}: the environment variable 'NO' is not set: set it",
        ),
        (
            "${no}",
            None,
            "t.yaml:3:7: ${no}: there is no properties file: name one with --filter or KSTORM_TOPOLOGY_FILTER",
        ),
        ("a ${no}", "yes: 1", "t.properties has no property 'no'; it has yes"),
        ("${no[0]}", "no: 1", "the property 'no' of "),
        ("${no[0]}", "no: 1", "t.properties is not a list"),
        ("${no[2]}", "no: [a, b]", "t.properties has 2 items, numbered from 0"),
        (
            "${no}",
            "no: [a, [b]]",
            (
                "t.yaml:3:7: ${no} starts like a list, but is not a list of single values: write [a, "
                "b]"
            ),
        ),
        ("${no}", "no", "t.properties:1: 'no' is not a property: write name: value, or name=value"),
        ("${no}", "no: 1\nno: 2", "t.properties:2: the property 'no' appears twice: keep one"),
        (
            "${no}",
            "no: a\\\n",
            (
                "t.properties:1: a properties file cannot contain backslashes: write 'no' into the "
                "YAML"
            ),
        ),
    ],
)
def test_invalid_reference_is_refused(
    written: Written, text: str, properties: str | None, says: str
) -> None:
    """It is an error, and does not stay in the text."""
    with pytest.raises(KstormError) as caught:
        own(written, text, properties)
    assert says in str(caught.value)


def test_comments_are_not_looked_at(written: Written) -> None:
    """A variable in a comment need not be set."""
    assert own(written, "1 # ${ENV-NO}") == 1

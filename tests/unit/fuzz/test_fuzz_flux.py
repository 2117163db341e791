"""A topology's YAML file gives a topology or a `KstormError`, whatever its content."""

from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kstorm.errors import KstormError
from kstorm.flux import load_file
from kstorm.flux.definitions import read_definitions
from kstorm.flux.document import parse
from kstorm.flux.model import KINDS
from kstorm.flux.substitution import Replacements, parse_properties

CLASSES = ["TestBolt", "TestWordSpout", "Configured", "LogInfoBolt", "Units", "TestClass"]
KEYS = st.sampled_from(sorted({key for kind in KINDS for key in kind.__struct_encode_fields__}))
WORDS = st.sampled_from(
    [
        "a",
        "b",
        "SHUFFLE",
        "CUSTOM",
        "FIELDS",
        "tests.unit.flux.storm:TestBolt",
        "datetime:timedelta",
        "os:path",
        "${a}",
        "${ENV-A}",
    ]
)
VALUES = st.recursive(
    WORDS
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)
PIECES = st.sampled_from(
    [
        *"-:{}[]&*!|>'\"#%@`,?~<\n\t 0159.ex_",
        "!!int",
        "!!set",
        "&a ",
        "*a",
        "<<",
        ": ",
        "- ",
        "${a}",
        "${",
        "2020-02-31",
    ]
)
SECTIONS = ["config", "components", "includes", "spouts", "bolts", "streams", "topology_source"]
ARGS = st.lists(VALUES, max_size=3)
METHODS = st.fixed_dictionaries(
    {"name": st.sampled_from(["with_foo", "with_none", "a"])}, optional={"args": ARGS}
)
PROPERTIES = st.fixed_dictionaries(
    {"name": st.sampled_from(["level", "time_len", "a"])}, optional={"value": VALUES, "ref": WORDS}
)
OBJECTS = st.fixed_dictionaries(
    {
        "id": st.sampled_from("abc"),
        "class": st.sampled_from([f"tests.unit.flux.storm:{name}" for name in CLASSES]),
    },
    optional={
        "args": ARGS,
        "kwargs": st.dictionaries(st.sampled_from(["te", "f", "a"]), VALUES, max_size=2),
        "factory": st.sampled_from(["new_instance", "a"]),
        "config_methods": st.lists(METHODS, max_size=2),
        "properties": st.lists(PROPERTIES, max_size=2),
    },
)
STREAMS = st.fixed_dictionaries(
    {
        "from": st.sampled_from("abc"),
        "to": st.sampled_from("abc"),
        "grouping": st.fixed_dictionaries(
            {"type": st.sampled_from(["SHUFFLE", "FIELDS", "DIRECT"])}, optional={"args": ARGS}
        ),
    }
)
GIVEN = Replacements({"A": "[x, 1]"}, {"a": "- {"}, "f")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@given(st.lists(PIECES | st.text(max_size=2), max_size=30).map("".join))
def test_any_text(text: str) -> None:
    """Invalid and strange YAML raises only `KstormError`."""
    with suppress(KstormError):
        read_definitions(parse(text, "f", GIVEN))


@given(st.fixed_dictionaries({"name": st.just("t")}, optional=dict.fromkeys(SECTIONS, VALUES)))
def test_any_values(values: dict[str, object]) -> None:
    """The keys are known ones, nested in any way."""
    with suppress(KstormError):
        read_definitions(parse(yaml.safe_dump(values), "f", GIVEN))


@given(
    st.lists(OBJECTS, max_size=2),
    st.lists(OBJECTS, max_size=2),
    st.lists(OBJECTS, max_size=2),
    st.lists(STREAMS, max_size=3),
)
def test_any_objects(
    folder: Path,
    components: list[object],
    spouts: list[object],
    bolts: list[object],
    streams: list[object],
) -> None:
    """The objects can be read, but most of them cannot be created."""
    file = folder / "t.yaml"
    wired = {
        "name": "t",
        "components": components,
        "spouts": spouts,
        "bolts": bolts,
        "streams": streams,
    }
    file.write_text(yaml.safe_dump(wired))
    with suppress(KstormError):
        load_file(file, environment={"A": "[x, 1]"})


@given(st.text(max_size=40))
def test_any_properties(text: str) -> None:
    """The file has one property per line."""
    with suppress(KstormError):
        assert all(name for name in parse_properties(text, "f"))

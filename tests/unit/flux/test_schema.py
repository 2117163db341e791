"""The JSON Schema of a topology's file matches the model, accepts examples, and rejects mistakes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

import kstorm.flux
from kstorm.cli.__main__ import main
from kstorm.flux.schema import schema, schema_text

FILE = Path(kstorm.flux.__file__).parent / "schema.json"
ROOT = Path(__file__).parents[3]
WORDCOUNT = ROOT / "examples" / "wordcount" / "topology.yaml"
EXAMPLES = [*sorted(Path(__file__).parent.glob("examples/*.yaml")), WORDCOUNT]
REFUSED = {"component-config-invalid-test"}
"""The examples that the schema rejects."""


def valid(values: Any) -> bool:
    """True if the schema accepts the values."""
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(values))


def test_the_file_is_what_the_model_says() -> None:
    """`kstorm flux-schema > shared/src/kstorm/flux/schema.json` updates the file."""
    jsonschema.Draft202012Validator.check_schema(schema())
    assert FILE.read_text() == schema_text()


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Users may have only the package."""
    with pytest.raises(SystemExit) as ended:
        main(["flux-schema"])
    assert ended.value.code == 0
    assert json.loads(capsys.readouterr().out) == schema()


def test_an_editor_finds_it_by_the_examples_first_line() -> None:
    """The path is relative to the file."""
    first = WORDCOUNT.read_text().splitlines()[0]
    path = first.removeprefix("# yaml-language-server: $schema=")
    assert (WORDCOUNT.parent / path).resolve() == FILE.resolve()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_each_example_is_valid(path: Path) -> None:
    """Replacements are not yet made."""
    assert valid(yaml.safe_load(path.read_text())) == (path.stem not in REFUSED)


@pytest.mark.parametrize(
    "wrong",
    [
        {"naem": "t"},
        {"name": 3},
        {"spouts": {}},
        {"spouts": [{"class": "a:B"}]},
        {"spouts": [{"id": "", "class": "a:B"}]},
        {"spouts": [{"id": "a"}]},
        {"spouts": [{"id": "a", "class": "B"}]},
        {"spouts": [{"id": "a", "className": "a:B"}]},
        {"spouts": [{"id": "a", "class": "a:B", "parallelism": 0}]},
        {"spouts": [{"id": "a", "class": "a:B", "parallelism": "two"}]},
        {"spouts": [{"id": "a", "class": "a:B", "config": {"topology_debug": 3}}]},
        {"bolts": [{"id": "a", "class": "a:B", "tasks": 1.5}]},
        {"bolts": [{"id": "a", "class": "a:B", "args": {}}]},
        {"bolts": [{"id": "a", "class": "a:B", "kwargs": []}]},
        {"bolts": [{"id": "a", "class": "a:B", "properties": [{"value": 1}]}]},
        {"bolts": [{"id": "a", "class": "a:B", "config_methods": [{"name": "m", "arg": []}]}]},
        {"streams": [{"to": "a", "grouping": {"type": "ALL"}}]},
        {"streams": [{"from": "b", "to": "a"}]},
        {"streams": [{"from": "b", "to": "a", "grouping": {"type": "all"}}]},
        {"streams": [{"from": "b", "to": "a", "grouping": {"type": "FIELDS", "args": [1]}}]},
        {
            "streams": [
                {
                    "from": "b",
                    "to": "a",
                    "grouping": {"type": "CUSTOM", "custom_class": {"args": []}},
                }
            ]
        },
        {"includes": [{"resource": True}]},
        {"includes": ["a.yaml"]},
        {"topology_source": {"class": "a:B"}},
        {"config": {"topology_max_spout_pending": "many"}},
    ],
    ids=str,
)
def test_invalid_file_is_refused(wrong: Any) -> None:
    """`load_file` refuses the same files."""
    assert not valid(wrong)


def test_unreplaced_variables_are_accepted() -> None:
    """A number may still be a `${name}`."""
    spout = {"id": "a", "class": "${module}:B", "parallelism": "${n}", "tasks": "${ENV-TASKS}"}
    assert valid({"spouts": [spout], "config": {"topology_debug": "${debug}", "mine": [1]}})


def test_every_setting_is_described() -> None:
    """An editor shows the description."""
    settings = schema()["$defs"]["Settings"]["properties"]
    assert "own" not in settings
    assert all(
        setting["description"].endswith(".") or len(setting["description"]) > 20
        for setting in settings.values()
    )
    assert settings["topology_max_spout_pending"]["default"] == 2000

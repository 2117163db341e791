"""Files that include others: precedence, the places in errors, and invalid includes."""

from pathlib import Path

import pytest

from kstorm.errors import KstormError
from kstorm.flux import load_file, read
from tests.unit.flux.conftest import WIRED, Written

STORM = "tests.unit.flux.storm"
OTHER = f"""
name: other
config: {{a: 2, b: 2}}
components:
  - {{id: thing, class: '{STORM}:TestClass', args: [of the other]}}
bolts:
  - {{id: log, class: '{STORM}:ConfiguredBolt', args: [ref: thing]}}
  - {{id: more, class: '{STORM}:LogInfoBolt'}}
streams:
  - {{from: words, to: log, grouping: {{type: ALL}}}}
  - {{from: log, to: more, grouping: {{type: ALL}}}}
"""


def including(override: str) -> str:
    """Writes a topology that includes another one with some equal names."""
    return (
        f"name: mine\nconfig: {{a: 1}}\nincludes: [{{file: other.yaml, override: {override}}}]\n"
        + WIRED
    )


def test_without_override_existing_definitions_win(written: Written) -> None:
    """Missing definitions are added."""
    topology = written(including("false"), other=OTHER)
    assert topology.name == "mine"
    assert topology.config.own == {"a": 1, "b": 2}
    assert list(topology.components) == ["words", "log", "more"]
    assert type(topology.component("log").component).__name__ == "LogInfoBolt"
    assert type(topology.component("log").inputs[0].grouping).__name__ == "ShuffleGrouping"


def test_with_override_included_definitions_win(written: Written) -> None:
    """References by id get the included object."""
    topology = written(including("true"), other=OTHER)
    assert topology.name == "other"
    assert topology.config.own == {"a": 2, "b": 2}
    assert type(topology.component("log").component).__name__ == "ConfiguredBolt"
    assert type(topology.component("log").inputs[0].grouping).__name__ == "AllGrouping"


def test_included_files_include_files(written: Written) -> None:
    """Their paths are relative to the folder of the including file.

    Storm's Flux does not allow this.
    """
    topology = written(
        "name: t\nincludes: [{file: a.yaml}]", a="includes: [{file: ./b.yaml}]", b=WIRED
    )
    assert list(topology.components) == ["words", "log"]


@pytest.mark.parametrize(
    ("text", "files", "says"),
    [
        ("includes: [{file: no.yaml}]", {}, "t.yaml:1:19: the included file "),
        ("includes: [{file: no.yaml}]", {}, "no.yaml cannot be read: no such file or directory"),
        (
            "includes: [{file: no.yaml, resource: true}]",
            {},
            "t.yaml:1:19: there is no 'no.yaml' in the folders of PYTHONPATH",
        ),
        ("includes: [{file: t.yaml}]", {}, "t.yaml includes itself: remove one of the includes"),
        ("includes: [{file: a.yaml}]", {"a": "includes: [{file: t.yaml}]"}, "a.yaml:1:19: "),
        ("includes: [{file: a.yaml}]", {"a": "\n\nbolts: 3"}, "a.yaml:3:8: bolts must be a list"),
        (
            "name: t\nincludes: [{file: a.yaml}]\n" + WIRED,
            {"a": "bolts: [{id: b, class: 'no:No'}]"},
            "a.yaml:1:24: the class 'no:No'",
        ),
        (
            "includes: [{file: a.yaml}]\n" + WIRED,
            {"a": "name: ${ENV-NO}"},
            "a.yaml:1:7: ${ENV-NO}: the environment",
        ),
    ],
)
def test_invalid_include_is_refused_with_its_position(
    written: Written, text: str, files: dict[str, str], says: str
) -> None:
    """The place is in the file with the mistake."""
    with pytest.raises(KstormError) as caught:
        written(text, **files)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("section", "says"),
    [
        (
            "components: [{id: a, class: 'x:Y'}, {id: a, class: 'x:Y'}]",
            "1:37: there are two components 'a', the other one in line 1",
        ),
        ("spouts: [{id: a, class: 'x:Y'}, {id: a, class: 'x:Y'}]", "there are two spouts 'a'"),
        (
            "streams: [{from: a, to: b, grouping: {type: ALL}}, {from: a, to: b, grouping: {type: NONE}}]",
            "there are two streams a → b, the other one in line 1",
        ),
    ],
)
def test_two_of_a_name_in_one_file(written: Written, section: str, says: str) -> None:
    """An ambiguous name is an error."""
    with pytest.raises(KstormError) as caught:
        written(section)
    assert says in str(caught.value)


def test_nothing_is_imported_before_everything_is_read(tmp_path: Path) -> None:
    """`read` returns the definitions without importing code."""
    (tmp_path / "t.yaml").write_text(
        "name: t\nspouts: [{id: s, class: 'not_there:Spout'}]\nincludes: [{file: u.yaml}]\n"
    )
    (tmp_path / "u.yaml").write_text("bolts: [{id: b, class: 'not_there:Bolt'}]\n")
    wiring = read(tmp_path / "t.yaml")
    assert [spout.value.class_ for spout in wiring.spouts.values()] == ["not_there:Spout"]
    assert wiring.files == [tmp_path / "t.yaml", tmp_path / "u.yaml"]
    with pytest.raises(KstormError, match=r"t\.yaml:2:25: the class 'not_there:Spout'"):
        load_file(tmp_path / "t.yaml")

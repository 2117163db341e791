"""The search box, and the topics that can be browsed."""

import pytest

from kstorm.introspection.outline import Outline, OutlineComponent, SpoutSource
from kstorm_ui.sources.partitions import PartitionState
from kstorm_ui.sources.search import offsets_of, results_by_form
from kstorm_ui.sources.topic_records import text_of, topics_of
from kstorm_ui.topology_memory import TopologyMemory
from kstorm_ui.topology_state import TopologyState
from tests.ui.server import topology

_OUTLINE = Outline(
    "words",
    [
        OutlineComponent("lines", "spout", 1, 1, reading=SpoutSource("sentences", "/kstorm", "x")),
        OutlineComponent("count", "bolt", 1, 2, writing="counts"),
    ],
)


@pytest.fixture
def state() -> TopologyState:
    report = topology("words", {"lines": "spout", "count": "bolt"}, [], outline=_OUTLINE)
    return TopologyMemory(0.0).learn(report, {}, 0.0, 1_700_000_000.0)


@pytest.mark.parametrize(
    ("text", "hrefs"),
    [
        ("sentences/3/10482", ["/t/words/m/sentences/3/10482"]),
        ("3/10482", ["/t/words/m/sentences/3/10482"]),
        ("c1bfc2d57272060e", ["/t/words/roots/c1bfc2d57272060e"]),
        ("d487a1b2", ["/t/words/letters?group=d487a1b2"]),
        ("count", ["/t/words/c/count"]),
        ("nothing", []),
        ("a/b/c/../1/2", []),
    ],
)
def test_text_means_an_object_by_its_form(
    state: TopologyState, text: str, hrefs: list[str]
) -> None:
    assert [each.href for each in results_by_form(text, state)] == hrefs


def test_offset_is_searched_in_all_partitions(state: TopologyState) -> None:
    partitions = [
        PartitionState("sentences", number, 10, end, None, "", None)
        for number, end in enumerate((20, 40))
    ]
    assert [each.href for each in offsets_of("30", state, partitions)] == [
        "/t/words/m/sentences/1/30"
    ]
    assert offsets_of("x", state, partitions) == []


def test_only_topics_of_the_topology_can_be_browsed() -> None:
    assert topics_of(_OUTLINE) == {"counts": "written by count", "sentences": "read by lines"}
    assert topics_of(None) == {}


@pytest.mark.parametrize(
    ("part", "text"), [(None, None), (b"caf\xc3\xa9", "café"), (b"a \xff", "a \\xff")]
)
def test_bytes_are_readable(part: bytes | None, text: str | None) -> None:
    assert text_of(part) == text

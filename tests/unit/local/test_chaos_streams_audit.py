"""The audit of streams, windows and joins finds what is lost, repeated or wrong in each of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from tests.chaos.events import Event
from tests.chaos.evidence import Evidence
from tests.chaos.findings import ChaosFindings, Letter, OffsetSeen, Parted, Record, RecordPlace
from tests.chaos.streams import BRANCHES, COUNTS, LAG_MS, LENGTH_MS, SPAN_SLIDE_MS, TOLD
from tests.chaos.streams_audit import NOWHERE, audit_streams

EVENTS = [
    Event("m0", 1000, "g0", "left", "to be"),
    Event("m1", 2500, "g0", "right", "be"),
    Event("m2", 5000, "g1", "left", "or"),
    Event("m3", 8500, "g1", "right", "to"),
    Event("last", 20_001 + LAG_MS, "last", "left", ""),
]
"""By the last one time is behind every window of the others."""
TOLD_OF: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("windows", "default"): [
        {"task": 0, "start": -2000, "end": 2000, "ids": ["m0"], "new": ["m0"]},
        {"task": 0, "start": 0, "end": 4000, "ids": ["m0", "m1"], "new": ["m1"]},
        {"task": 0, "start": 2000, "end": 6000, "ids": ["m1"], "new": []},
        {"task": 1, "start": 2000, "end": 6000, "ids": ["m2"], "new": ["m2"]},
        {"task": 1, "start": 4000, "end": 8000, "ids": ["m2"], "new": []},
        {"task": 1, "start": 6000, "end": 10_000, "ids": ["m3"], "new": ["m3"]},
        {"task": 1, "start": 8000, "end": 12_000, "ids": ["m3"], "new": []},
    ],
    ("paired", "default"): [
        {"group": "g0", "left": "m0", "left_at": 1000, "right": "m1", "right_at": 2500},
        {"group": "g1", "left": "m2", "left_at": 5000, "right": "m3", "right_at": 8500},
    ],
    ("joined", "default"): [
        {"left:group": "g0", "left:id": "m0", "right:id": "m1"}
    ],  # the others are a window apart
    ("spans", "default"): [
        {"side": event.side, "span": [1, crc32(event.id.encode()), event.at, event.at]}
        for event in EVENTS[:4]
        for _ in range(LENGTH_MS // SPAN_SLIDE_MS)  # none is in a window with another of its side
    ],
}
COUNTED = [("to", 1), ("be", 1), ("be", 2), ("or", 1), ("to", 2)]
Told = list[dict[str, Any]]


def record(topic: str, offset: int, said: Mapping[str, Any]) -> Record:
    return Record(RecordPlace(topic, 0, offset), json.dumps(said).encode(), 1_000_000 + offset)


def source(events: Sequence[Event] = EVENTS) -> list[Record]:
    return [
        Record(
            RecordPlace("in", 0, number),
            json.dumps({name: getattr(event, name) for name in event.__struct_fields__}).encode(),
            2000 + number,
        )
        for number, event in enumerate(events)
    ]


def told(**changed: Told) -> Told:
    """All that is told, in place of some components' something else; a late tuple as `windows_late`."""
    found: Told = []
    for (component, stream), some in TOLD_OF.items():
        found += [
            {"of": component, "stream": stream, **each} for each in changed.get(component, some)
        ]
    for component in ("windows", "joined", "spans"):
        for id in changed.get(f"{component}_late", []):
            values = {"component": "messages", "stream": "default", "values": {"id": id}}
            found.append({"of": component, "stream": "late", "late_tuple": values})
    return found


def audited(
    some: Told | None = None,
    counted: Sequence[tuple[str, int]] = COUNTED,
    events: Sequence[Event] = EVENTS,
    letters: Sequence[Letter] = (),
    parted: Mapping[RecordPlace, Parted] | None = None,
    branches: Sequence[str] = BRANCHES,
) -> ChaosFindings:
    topics = {
        COUNTS: [
            record(COUNTS, offset, {"word": word, "count": n})
            for offset, (word, n) in enumerate(counted)
        ],
        TOLD: [
            record(TOLD, offset, each)
            for offset, each in enumerate(told() if some is None else some)
        ],
    }
    evidence = Evidence(
        source(events),
        lambda topic: iter(topics[topic]),
        letters,
        last={"last"},
        parted=parted or {},
    )
    return audit_streams(evidence, branches)


def windows(change: Callable[[Told], object]) -> ChaosFindings:
    """With windows that are not as they should be."""
    some = [dict(each) for each in TOLD_OF["windows", "default"]]
    change(some)
    return audited(told(windows=some))


def names(found: ChaosFindings) -> list[tuple[str, str]]:
    return [(lost.id, lost.missing) for lost in found.lost]


def test_what_is_whole_has_no_faults() -> None:
    """Each count, each window and each pair once."""
    found = audited()
    assert found.faults() == []
    assert (found.duplicates, found.over, found.late, found.outputs) == ([], 0, 0, 15 + 160)
    assert found.spans == [(2001, 1_000_007), (2003, 1_000_008)]


# Trident's word count.


def test_a_word_that_is_not_counted_is_counted_short() -> None:
    """The last count is below the truth."""
    found = audited(counted=COUNTED[:-1])
    assert found.short == {"to": (1, 2)}
    assert "counted short" in found.faults()[0]


def test_a_word_that_is_counted_twice_is_over() -> None:
    """The last count is above the truth."""
    found = audited(counted=[*COUNTED, ("to", 3)])
    assert (found.short, found.over) == ({}, 1)


@pytest.mark.parametrize("again", [("to", 2), ("to", 1)])
def test_a_count_that_comes_again_is_a_duplicate(again: tuple[str, int]) -> None:
    """The same, or a lower one after a higher one."""
    found = audited(counted=[*COUNTED, again])
    assert [copy.id for copy in found.duplicates] == [f"count {again[1]} of to"]


def test_a_count_of_a_batch_may_leave_some_out() -> None:
    """It grows by as many as the batch has."""
    found = audited(counted=[("to", 2), ("be", 2), ("or", 1)])
    assert (found.faults(), found.duplicates, found.over) == ([], [], 0)


@pytest.mark.parametrize("wrong", [("question", 1), ("to", 0)])
def test_a_count_that_follows_from_no_message_is_corrupted(wrong: tuple[str, int]) -> None:
    """A word that nobody sent, or a count of nothing."""
    assert len(audited(counted=[*COUNTED, wrong]).corrupted) == 1


# Windows.


@pytest.mark.parametrize("missing", range(7))
def test_a_window_that_is_not_shown_has_lost_its_messages(missing: int) -> None:
    """Each of them is named, with the window."""
    window = TOLD_OF["windows", "default"][missing]
    found = windows(lambda some: some.pop(missing))
    assert names(found) == [(id, f"window until {window['end']}") for id in window["ids"]]
    assert "messages are lost" in found.faults()[0]


def test_a_window_that_is_shown_twice_is_a_duplicate() -> None:
    """Whatever is in it."""
    found = windows(lambda some: some.append(some[1]))
    assert [copy.id for copy in found.duplicates] == ["the window of task 0 until 4000"]


def test_a_message_that_a_window_lacks_is_lost() -> None:
    """The others in it are not."""
    found = windows(lambda some: some[1].update(ids=["m1"]))
    assert names(found) == [("m0", "window until 4000")]


def test_a_message_that_is_twice_in_a_window_is_a_duplicate() -> None:
    """As if its tuple had been kept twice."""
    found = windows(lambda some: some[2].update(ids=["m1", "m1"]))
    assert [copy.id for copy in found.duplicates] == ["m1 in the window until 6000"]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"ids": ["m1", "m0"]}, id="in another order"),
        pytest.param({"ids": ["m0", "m9"]}, id="one that never was"),
        pytest.param({"ids": [], "new": []}, id="empty"),
        pytest.param({"new": ["m0", "m1"]}, id="new once more"),
        pytest.param({"new": []}, id="new never"),
        pytest.param({"start": 1}, id="too short"),
        pytest.param({"end": 4500, "start": 500, "new": []}, id="no multiple of the slide"),
        pytest.param({"end": 6000, "start": 2000, "new": []}, id="another time's"),
        pytest.param({"end": "4000"}, id="no number"),
    ],
)
def test_a_window_that_is_not_as_defined_is_corrupted(change: dict[str, object]) -> None:
    """It is named, and its messages are lost in it."""
    found = windows(lambda some: some[1].update(change))
    assert found.corrupted
    assert ("m0", "window until 4000") in names(found)


def test_a_window_that_has_not_ended_must_not_be_shown() -> None:
    """Time is not there yet."""
    end = {"task": 0, "start": 28_000, "end": 32_000, "ids": ["last"], "new": ["last"]}
    found = windows(lambda some: some.append(end))
    assert len(found.corrupted) == 1


def test_a_group_has_one_task() -> None:
    """Its messages are in no other's windows, even if they are missing in those of its own."""
    some = [dict(each) for each in TOLD_OF["windows", "default"]]
    some[3].update(ids=["m1", "m2"])
    del some[2]
    found = audited(told(windows=some))
    assert len(found.corrupted) == 1
    assert ("m1", "window until 6000") in names(found)


def test_a_late_message_is_in_no_window() -> None:
    """And is told once; then nothing is wrong."""
    rest = [dict(each) for each in TOLD_OF["windows", "default"] if each["ids"] != ["m3"]]
    found = audited(told(windows=rest, windows_late=["m3"]))  # type: ignore[list-item]
    assert (found.faults(), found.duplicates, found.late) == ([], [], 1)
    found = audited(told(windows_late=["m3"]))  # type: ignore[list-item]
    assert [copy.id for copy in found.duplicates] == [
        "m3 in the window until 10000",
        "m3 in the window until 12000",
    ]
    found = audited(told(windows=rest, windows_late=["m3", "m3"]))  # type: ignore[list-item]
    assert [copy.id for copy in found.duplicates] == ["m3 is late"]
    for wrong in ("m9", "last"):  # one that never was, and one for whose time it cannot be too late
        assert len(audited(told(windows_late=[wrong])).corrupted) == 1  # type: ignore[list-item]


# Joins.


# Sums of windows.


def spans(change: Callable[[Told], object]) -> ChaosFindings:
    """With sums that are not as they should be."""
    some = [dict(each) for each in TOLD_OF["spans", "default"]]
    change(some)
    return audited(told(spans=some))


def test_a_sum_that_is_not_shown_is_lost() -> None:
    """It is said how often, and of which message last."""
    found = spans(lambda some: (some.pop(0), some.pop(0)))
    assert names(found) == [("m0", f"sums: (1, {crc32(b'm0')}, 1000, 1000) of left, 2 times")]


def test_a_sum_that_is_shown_once_more_is_a_duplicate() -> None:
    """Though windows in a row may have the same."""
    found = spans(lambda some: some.append(some[0]))
    assert [copy.id for copy in found.duplicates] == [
        f"the sums (1, {crc32(b'm0')}, 1000, 1000) of left"
    ]


def test_a_sum_of_no_window_is_corrupted() -> None:
    """And the one in whose place it is is lost."""
    found = spans(lambda some: some[0].update(side="right"))
    assert (len(found.corrupted), len(found.lost)) == (1, 1)
    assert len(spans(lambda some: some.append({"side": "left"})).corrupted) == 1


def test_sums_have_no_late_message() -> None:
    """It is told, once."""
    rest = [each for each in TOLD_OF["spans", "default"] if each["span"][2] != 8500]
    found = audited(told(spans=rest, spans_late=["m3"]))  # type: ignore[list-item]
    assert (found.faults(), found.duplicates, found.late) == ([], [], 1)
    assert len(audited(told(spans_late=["m3"])).corrupted) == 40  # type: ignore[list-item]


def test_sums_of_several_messages_follow_their_windows() -> None:
    """Of two that are in some windows together."""
    together = [
        Event("m0", 1000, "g0", "left", ""),
        Event("m1", 1250, "g0", "left", ""),
        EVENTS[-1],
    ]
    one, other = crc32(b"m0"), crc32(b"m1")
    shown = (
        [[1, one, 1000, 1000]] * 3
        + [[2, one + other, 1000, 1250]] * 37
        + [[1, other, 1250, 1250]] * 3
    )
    some: Told = [
        {"of": "spans", "stream": "default", "side": "left", "span": each} for each in shown
    ]
    found = audited(some, events=together, branches=["window"])
    assert {lost.missing.partition(" ")[0] for lost in found.lost} == {
        "window"
    }  # none of which is told
    assert (found.corrupted, found.duplicates) == ([], [])


@pytest.mark.parametrize(
    ("name", "place", "missing"),
    [
        ("paired", 0, ("m1", "paired: m0 with m1")),
        ("paired", 1, ("m3", "paired: m2 with m3")),
        ("joined", 0, ("m1", "joined: m0 with m1")),
    ],
)
def test_a_pair_that_is_not_there_is_lost(name: str, place: int, missing: tuple[str, str]) -> None:
    """Of the half that came later."""
    some = list(TOLD_OF[name, "default"])
    del some[place]
    assert names(audited(told(**{name: some}))) == [missing]


@pytest.mark.parametrize("name", ["paired", "joined"])
def test_a_pair_that_is_there_twice_is_a_duplicate(name: str) -> None:
    """It is named."""
    some = TOLD_OF[name, "default"]
    found = audited(told(**{name: [*some, some[0]]}))
    assert [copy.id for copy in found.duplicates] == [f"{name}: m0 with m1"]


def test_a_pair_of_two_windows_is_corrupted() -> None:
    """And so is one of two groups, or under another group's name."""
    one = TOLD_OF["joined", "default"][0]
    apart = {"left:group": "g1", "left:id": "m2", "right:id": "m3"}
    assert len(audited(told(joined=[one, apart])).corrupted) == 1
    assert len(audited(told(joined=[one | {"left:group": "g1"}])).corrupted) == 1
    mixed = {"group": "g0", "left": "m0", "right": "m3"}
    assert len(audited(told(paired=[*TOLD_OF["paired", "default"], mixed])).corrupted) == 1


def test_a_pair_with_a_late_half_is_not_due() -> None:
    """And must not be there; the join over all that ever came has it."""
    found = audited(told(joined=[], joined_late=["m1"]))  # type: ignore[list-item]
    assert (found.faults(), found.late) == ([], 1)
    assert len(audited(told(joined_late=["m1"])).corrupted) == 1  # type: ignore[list-item]


# All.


def test_only_the_branches_that_are_there_are_looked_for() -> None:
    """The others have told nothing."""
    nothing = dict[str, Told](windows=[], paired=[], joined=[])
    assert audited(told(**nothing), branches=["trident"]).faults() == []
    assert (
        audited(
            told(**nothing | {"windows": TOLD_OF["windows", "default"]}), [], branches=["window"]
        ).faults()
        == []
    )
    assert audited(told(windows=[]), [], branches=["join"]).faults() == []


def test_what_is_no_json_is_corrupted() -> None:
    """Wherever it was written."""
    found = audited([*told(), {}], [*COUNTED, (7, 1)])  # type: ignore[list-item]
    assert len(found.corrupted) == 2


def test_a_message_that_nobody_takes_must_be_nowhere() -> None:
    """Each branch has a letter for it, and nothing else of it."""
    bad = Event("bad", 900, "bad", "left", "to !raise be")
    place = RecordPlace("in", 0, 5)
    letters = [
        Letter(RecordPlace("t", 0, n), 5000, of, "bad")
        for n, of in enumerate(("split", "windows", "left"))
    ]
    parted = {
        place: Parted(frozenset({NOWHERE}), (("split", True), ("windows", True), ("left", True)))
    }
    found = audited(events=[*EVENTS, bad], letters=letters, parted=parted)
    assert (found.faults(), found.letters) == ([], 1)
    found = audited(events=[*EVENTS, bad], letters=letters[1:], parted=parted)
    assert found.wrong_letters == ["0 in place of 1 of 'split' for 'bad'"]
    some = [{"task": 0, "start": -2000, "end": 2000, "ids": ["bad", "m0"], "new": ["bad", "m0"]}]
    found = audited(
        told(windows=[*some, *TOLD_OF["windows", "default"][1:]]),
        events=[*EVENTS, bad],
        letters=letters,
        parted=parted,
    )
    assert len(found.corrupted) == 1


def test_an_id_that_is_twice_in_the_source_cannot_be_audited() -> None:
    """One could stand for the other."""
    with pytest.raises(ValueError, match="'m0' is twice"):
        audited(events=[*EVENTS, EVENTS[0]])


def test_dead_letters_and_offsets_are_as_for_any_topology() -> None:
    """What cannot be processed has a letter, what can has none, and no offset is ahead of the spout's position."""
    bad = Record(RecordPlace("in", 1, 0), b"no JSON", 1900)
    nothing = Evidence([*source(), bad], lambda topic: iter(()), poison=[bad.place], last={"last"})
    found = audit_streams(nothing, [])
    assert (found.without_letter, found.letters) == ([bad.place], 0)
    letters = [Letter(bad.place, 2000), Letter(RecordPlace("in", 0, 1), 2000)]
    offsets = [OffsetSeen(0, 4, 3000, 4), OffsetSeen(0, 5, 3001, 4)]
    found = audit_streams(replace(nothing, letters=letters, offsets=offsets, ends={0: 6}), [])
    assert (found.without_letter, found.letters, found.given_up) == (
        [],
        1,
        [RecordPlace("in", 0, 1)],
    )
    assert (found.ahead, found.unfinished) == ([offsets[1]], {0: (5, 6)})

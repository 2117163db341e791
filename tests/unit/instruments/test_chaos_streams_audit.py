"""The audit of streams, windows and joins finds lost, repeated and wrong outputs in each of them."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from tests.chaos.events import Event
from tests.chaos.evidence import Evidence
from tests.chaos.findings import (
    ChaosFindings,
    Letter,
    OffsetSeen,
    PartlyFailed,
    Record,
    RecordPlace,
)
from tests.chaos.streams import BRANCHES, COUNTS, LAG_MS, LENGTH_MS, SPAN_SLIDE_MS, TOLD
from tests.chaos.streams_audit import NOWHERE, audit_streams

EVENTS = [
    Event("m0", 1000, "g0", "left", "to be"),
    Event("m1", 2500, "g0", "right", "be"),
    Event("m2", 5000, "g1", "left", "or"),
    Event("m3", 8500, "g1", "right", "to"),
    Event("last", 20_001 + LAG_MS, "last", "left", ""),
]
"""After the last event, time is past every window of the others."""
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
        for _ in range(LENGTH_MS // SPAN_SLIDE_MS)  # none shares a window with another of its side
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
    """Return all output, with replacements for some components. `windows_late` is a late tuple."""
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
    parted: Mapping[RecordPlace, PartlyFailed] | None = None,
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
    """Audit with changed windows."""
    some = [dict(each) for each in TOLD_OF["windows", "default"]]
    change(some)
    return audited(told(windows=some))


def names(found: ChaosFindings) -> list[tuple[str, str]]:
    return [(lost.id, lost.missing) for lost in found.lost]


def test_complete_output_has_no_faults() -> None:
    """Each count, window and pair occurs once."""
    found = audited()
    assert found.faults() == []
    assert (found.duplicates, found.over, found.late, found.outputs) == ([], 0, 0, 15 + 160)
    assert found.spans == [(2001, 1_000_007), (2003, 1_000_008)]


# Trident's word count.


def test_uncounted_word_is_short() -> None:
    """The last count is below the truth."""
    found = audited(counted=COUNTED[:-1])
    assert found.short == {"to": (1, 2)}
    assert "counted short" in found.faults()[0]


def test_word_counted_twice_is_over() -> None:
    """The last count is above the truth."""
    found = audited(counted=[*COUNTED, ("to", 3)])
    assert (found.short, found.over) == ({}, 1)


@pytest.mark.parametrize("again", [("to", 2), ("to", 1)])
def test_repeated_count_is_a_duplicate(again: tuple[str, int]) -> None:
    """It may also be a lower count after a higher one."""
    found = audited(counted=[*COUNTED, again])
    assert [copy.id for copy in found.duplicates] == [f"count {again[1]} of to"]


def test_count_of_a_batch_may_skip_values() -> None:
    """It grows by the number of words in the batch."""
    found = audited(counted=[("to", 2), ("be", 2), ("or", 1)])
    assert (found.faults(), found.duplicates, found.over) == ([], [], 0)


@pytest.mark.parametrize("wrong", [("question", 1), ("to", 0)])
def test_count_of_no_message_is_corrupted(wrong: tuple[str, int]) -> None:
    """No message has the word, or the count is zero."""
    assert len(audited(counted=[*COUNTED, wrong]).corrupted) == 1


# Windows.


@pytest.mark.parametrize("missing", range(7))
def test_missing_window_loses_its_messages(missing: int) -> None:
    """The audit names each message and the window."""
    window = TOLD_OF["windows", "default"][missing]
    found = windows(lambda some: some.pop(missing))
    assert names(found) == [(id, f"window until {window['end']}") for id in window["ids"]]
    assert "messages are lost" in found.faults()[0]


def test_repeated_window_is_a_duplicate() -> None:
    found = windows(lambda some: some.append(some[1]))
    assert [copy.id for copy in found.duplicates] == ["the window of task 0 until 4000"]


def test_message_missing_in_a_window_is_lost() -> None:
    """The other messages of the window are not lost."""
    found = windows(lambda some: some[1].update(ids=["m1"]))
    assert names(found) == [("m0", "window until 4000")]


def test_message_twice_in_a_window_is_a_duplicate() -> None:
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
def test_malformed_window_is_corrupted(change: dict[str, object]) -> None:
    """The audit names it, and its messages are lost in it."""
    found = windows(lambda some: some[1].update(change))
    assert found.corrupted
    assert ("m0", "window until 4000") in names(found)


def test_unfinished_window_must_not_be_shown() -> None:
    end = {"task": 0, "start": 28_000, "end": 32_000, "ids": ["last"], "new": ["last"]}
    found = windows(lambda some: some.append(end))
    assert len(found.corrupted) == 1


def test_group_belongs_to_one_task() -> None:
    """Its messages must not be in windows of another task."""
    some = [dict(each) for each in TOLD_OF["windows", "default"]]
    some[3].update(ids=["m1", "m2"])
    del some[2]
    found = audited(told(windows=some))
    assert len(found.corrupted) == 1
    assert ("m1", "window until 6000") in names(found)


def test_late_message_is_in_no_window() -> None:
    """It is reported once, which is not a fault."""
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
    for wrong in ("m9", "last"):  # one does not exist, and the other cannot be late
        assert len(audited(told(windows_late=[wrong])).corrupted) == 1  # type: ignore[list-item]


# Joins.


# Sums of windows.


def spans(change: Callable[[Told], object]) -> ChaosFindings:
    """Audit with changed sums."""
    some = [dict(each) for each in TOLD_OF["spans", "default"]]
    change(some)
    return audited(told(spans=some))


def test_missing_sum_is_lost() -> None:
    """The audit names the number of times and the last message."""
    found = spans(lambda some: (some.pop(0), some.pop(0)))
    assert names(found) == [("m0", f"sums: (1, {crc32(b'm0')}, 1000, 1000) of left, 2 times")]


def test_repeated_sum_is_a_duplicate() -> None:
    """Successive windows may have equal sums."""
    found = spans(lambda some: some.append(some[0]))
    assert [copy.id for copy in found.duplicates] == [
        f"the sums (1, {crc32(b'm0')}, 1000, 1000) of left"
    ]


def test_sum_of_no_window_is_corrupted() -> None:
    """The right sum is lost."""
    found = spans(lambda some: some[0].update(side="right"))
    assert (len(found.corrupted), len(found.lost)) == (1, 1)
    assert len(spans(lambda some: some.append({"side": "left"})).corrupted) == 1


def test_late_message_is_in_no_sum() -> None:
    """It is reported once."""
    rest = [each for each in TOLD_OF["spans", "default"] if each["span"][2] != 8500]
    found = audited(told(spans=rest, spans_late=["m3"]))  # type: ignore[list-item]
    assert (found.faults(), found.duplicates, found.late) == ([], [], 1)
    assert len(audited(told(spans_late=["m3"])).corrupted) == 40  # type: ignore[list-item]


def test_sums_of_several_messages_follow_their_windows() -> None:
    """Two messages share some windows."""
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
    }  # the output has no windows
    assert (found.corrupted, found.duplicates) == ([], [])


@pytest.mark.parametrize(
    ("name", "place", "missing"),
    [
        ("paired", 0, ("m1", "paired: m0 with m1")),
        ("paired", 1, ("m3", "paired: m2 with m3")),
        ("joined", 0, ("m1", "joined: m0 with m1")),
    ],
)
def test_missing_pair_is_lost(name: str, place: int, missing: tuple[str, str]) -> None:
    """The later half is named."""
    some = list(TOLD_OF[name, "default"])
    del some[place]
    assert names(audited(told(**{name: some}))) == [missing]


@pytest.mark.parametrize("name", ["paired", "joined"])
def test_repeated_pair_is_a_duplicate(name: str) -> None:
    some = TOLD_OF[name, "default"]
    found = audited(told(**{name: [*some, some[0]]}))
    assert [copy.id for copy in found.duplicates] == [f"{name}: m0 with m1"]


def test_pair_of_two_windows_is_corrupted() -> None:
    """A pair of two groups is too, and so is a pair with another group's name."""
    one = TOLD_OF["joined", "default"][0]
    apart = {"left:group": "g1", "left:id": "m2", "right:id": "m3"}
    assert len(audited(told(joined=[one, apart])).corrupted) == 1
    assert len(audited(told(joined=[one | {"left:group": "g1"}])).corrupted) == 1
    mixed = {"group": "g0", "left": "m0", "right": "m3"}
    assert len(audited(told(paired=[*TOLD_OF["paired", "default"], mixed])).corrupted) == 1


def test_pair_with_a_late_half_is_not_expected() -> None:
    """It must not occur. The join without windows has it."""
    found = audited(told(joined=[], joined_late=["m1"]))  # type: ignore[list-item]
    assert (found.faults(), found.late) == ([], 1)
    assert len(audited(told(joined_late=["m1"])).corrupted) == 1  # type: ignore[list-item]


# All.


def test_audit_covers_only_the_given_branches() -> None:
    nothing = dict[str, Told](windows=[], paired=[], joined=[])
    assert audited(told(**nothing), branches=["trident"]).faults() == []
    assert (
        audited(
            told(**nothing | {"windows": TOLD_OF["windows", "default"]}), [], branches=["window"]
        ).faults()
        == []
    )
    assert audited(told(windows=[]), [], branches=["join"]).faults() == []


def test_invalid_json_is_corrupted() -> None:
    """This holds for every topic."""
    found = audited([*told(), {}], [*COUNTED, (7, 1)])  # type: ignore[list-item]
    assert len(found.corrupted) == 2


def test_rejected_message_must_have_no_output() -> None:
    """Each branch has a dead letter for it."""
    bad = Event("bad", 900, "bad", "left", "to !raise be")
    place = RecordPlace("in", 0, 5)
    letters = [
        Letter(RecordPlace("t", 0, n), 5000, of, "bad")
        for n, of in enumerate(("split", "windows", "left"))
    ]
    parted = {
        place: PartlyFailed(
            frozenset({NOWHERE}), (("split", True), ("windows", True), ("left", True))
        )
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


def test_duplicate_id_in_the_source_is_rejected() -> None:
    """One message could replace the other."""
    with pytest.raises(ValueError, match="'m0' is twice"):
        audited(events=[*EVENTS, EVENTS[0]])


def test_dead_letters_and_offsets_are_audited_as_in_any_topology() -> None:
    """Exactly the bad messages have a letter. No offset is ahead of the spout's position."""
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

"""The audit of a chaos run finds lost, repeated and wrong outputs, low counts, and offsets stored
too early."""

import json
from zlib import crc32

import pytest

from tests.chaos.audit import audit
from tests.chaos.findings import (
    NEVER,
    Duplicate,
    Letter,
    OffsetSeen,
    PartlyFailed,
    Record,
    RecordPlace,
)

TEXTS = ["m0 to be or not to be", "m1 be quick", "m2 to"]
POISON = RecordPlace("in", 1, 1)


def source(texts: list[str] = TEXTS) -> list[Record]:
    """Return the messages, alternating between two partitions, one every 10 ms."""
    return [
        Record(RecordPlace("in", number % 2, number // 2), text.encode(), 1000 + 10 * number)
        for number, text in enumerate(texts)
    ]


def words(texts: list[str] = TEXTS) -> list[Record]:
    """Return the records of the counts topic after each word was counted once."""
    counts: dict[str, int] = {}
    found: list[Record] = []
    for number, text in enumerate(texts):
        id, *rest = text.split()
        for position, word in enumerate(rest):
            counts[word] = counts.get(word, 0) + 1
            value = {"id": id, "position": position, "word": word, "count": counts[word]}
            found.append(
                Record(
                    RecordPlace("words", 0, len(found)),
                    json.dumps(value).encode(),
                    1100 + 10 * number,
                )
            )
    return found


def joined(texts: list[str] = TEXTS) -> list[Record]:
    """Return the records of the join topic after each message was joined once."""
    return [
        Record(
            RecordPlace("joined", 0, number),
            json.dumps(
                {
                    "id": text.split()[0],
                    "length": len(text.split()) - 1,
                    "checksum": crc32(text.encode()),
                }
            ).encode(),
            1105 + 10 * number,
        )
        for number, text in enumerate(texts)
    ]


def changed(record: Record, **values: object) -> Record:
    """Return a record with other content."""
    return record._replace(value=json.dumps({**json.loads(record.value), **values}).encode())


def test_complete_output_has_no_faults() -> None:
    """Every output occurs once, every offset is at its end, and the last counts are true."""
    offsets = [OffsetSeen(0, 1, 1105), OffsetSeen(0, 2, 1126), OffsetSeen(1, 1, 1200)]
    found = audit(
        source(), words(), joined(), [], last={"m1", "m2"}, offsets=offsets, ends={0: 2, 1: 1}
    )
    # Words of m0 that do not occur again have no last count.
    assert set(found.short) == {"or", "not"}
    found.short.clear()
    assert found.faults() == []
    assert (found.outputs, found.samples, len(found.messages)) == (12, 3, 3)
    assert not found.duplicates


@pytest.mark.parametrize("missing", range(9))
def test_missing_word_is_a_lost_message(missing: int) -> None:
    """The audit names the message and the missing word."""
    records = words()
    gone = json.loads(records.pop(missing).value)
    found = audit(source(), records, joined(), [])
    assert [(lost.id, lost.missing) for lost in found.lost] == [
        (gone["id"], f"word {gone['position']}")
    ]
    assert "1 messages are lost" in found.faults()[0]


def test_missing_join_is_a_lost_message() -> None:
    found = audit(source(), words(), joined()[:2], [])
    assert [(lost.id, lost.missing, lost.timestamp) for lost in found.lost] == [
        ("m2", "join", 1020)
    ]


def test_further_copies_of_an_output_are_duplicates() -> None:
    """Their order does not matter.

    Each has the time of the later copy and of its message's completion.
    """
    late = words()[6]._replace(timestamp=5000)
    found = audit(source(), [late, *words()], [*joined(), joined()[2]._replace(timestamp=6000)], [])
    assert found.duplicates == [Duplicate("m1", 5000, 1115), Duplicate("m2", 6000, 1125)]
    assert found.faults() == []


def test_duplicate_does_not_replace_a_lost_output() -> None:
    records = words()
    records[1] = records[0]
    found = audit(source(), records, joined(), [])
    assert [lost.missing for lost in found.lost] == ["word 1"]
    assert found.duplicates == [Duplicate("m0", 1100, NEVER)]


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(words()[0]._replace(value=b"\xff"), id="no JSON"),
        pytest.param(words()[0]._replace(value=b""), id="empty"),
        pytest.param(changed(words()[0], id="m9"), id="a message that never was"),
        pytest.param(changed(words()[0], word="bee"), id="another word"),
        pytest.param(changed(words()[0], position=1), id="another place"),
        pytest.param(changed(words()[0], position=-6), id="a place from the end"),
        pytest.param(changed(words()[0], position=6), id="a place beyond the end"),
        pytest.param(changed(words()[0], count=0), id="a count of nothing"),
    ],
)
def test_word_of_no_message_is_corrupted(wrong: Record) -> None:
    """The audit names it, and it completes no message."""
    found = audit(source(), [wrong, *words()[1:]], joined(), [])
    assert found.corrupted == [wrong]
    assert [lost.id for lost in found.lost] == ["m0"]


@pytest.mark.parametrize("change", [{"length": 5}, {"checksum": 1}, {"id": "m1"}, {"length": None}])
def test_join_of_no_message_is_corrupted(change: dict[str, object]) -> None:
    """Both halves must be correct and belong to the same message."""
    wrong = changed(joined()[0], **change)
    found = audit(source(), words(), [wrong, *joined()[1:]], [])
    assert found.corrupted == [wrong]
    assert [lost.id for lost in found.lost] == ["m0"]


def test_dead_letter_of_a_good_message_is_given_up_not_lost() -> None:
    """Its outputs are not duplicates, even if they occur twice."""
    records = [record for record in words() if b"m1" not in record.value] + [words()[6], words()[6]]
    found = audit(source(), records, joined(), [Letter(RecordPlace("in", 1, 0), 1500)])
    assert (found.lost, found.duplicates, found.given_up) == ([], [], [RecordPlace("in", 1, 0)])
    assert "could be processed" in found.faults()[0]


def test_poison_must_be_in_the_dead_letters() -> None:
    """This holds for the source and for internal topics.

    Such a message is neither lost nor given up.
    """
    messages = [*source(), Record(POISON, b"\xff\xfe", 1030)]
    frame = RecordPlace("internal", 0, 7)
    found = audit(
        messages,
        words(),
        joined(),
        [Letter(POISON, 1500), Letter(frame, 1501)],
        poison=[POISON, frame],
    )
    assert found.faults() == []
    assert found.letters == 2
    found = audit(messages, words(), joined(), [Letter(POISON, 1500)], poison=[POISON, frame])
    assert (found.letters, found.without_letter) == (1, [frame])
    assert "not in the dead letters" in found.faults()[0]


def test_last_counts_may_be_too_high_but_not_too_low() -> None:
    """The truth comes from the source topic. Only the counts of the last messages matter."""
    texts = ["m0 to be to", "m1 be", "last0 to be"]
    right = words(texts)
    assert audit(source(texts), right, joined(texts), [], last={"last0"}).short == {}
    over = [*right[:-2], changed(right[-2], count=5), right[-1]]
    found = audit(source(texts), over, joined(texts), [], last={"last0"})
    assert (found.short, found.over) == ({}, 2)
    short = [changed(right[0], count=9), *right[1:-2], changed(right[-2], count=2), right[-1]]
    found = audit(source(texts), short, joined(texts), [], last={"last0"})
    assert found.short == {"to": (2, 3)}
    assert "counted short" in found.faults()[0]


def test_stored_offset_above_an_unfinished_message_is_found() -> None:
    """At the time of the check, all outputs below it must have been written."""
    too_soon = OffsetSeen(0, 2, 1124)
    offsets = [OffsetSeen(0, 1, 1105), too_soon, OffsetSeen(0, 2, 1125), OffsetSeen(1, 1, 1115)]
    found = audit(source(), words(), joined(), [], offsets=offsets, ends={0: 2, 1: 1})
    assert found.ahead == [too_soon]
    begun = OffsetSeen(1, 0, 1100, position=-1001)  # no offset was committed yet
    exact = [OffsetSeen(0, 2, 1124, position=2), OffsetSeen(0, 2, 9999, position=1), begun]
    assert audit(source(), words(), joined(), [], offsets=exact).ahead == [exact[1]]
    assert "stored offsets were too high" in found.faults()[0]
    found = audit(source(), words()[1:], joined(), [], offsets=[OffsetSeen(0, 2, 9999)])
    assert found.ahead == [OffsetSeen(0, 2, 9999)]


def test_stored_offset_below_the_end_is_found() -> None:
    """The last check counts. A partition that was never seen is at 0."""
    found = audit(
        source(), words(), joined(), [], offsets=[OffsetSeen(0, 1, 2000)], ends={0: 2, 1: 1}
    )
    assert found.unfinished == {0: (1, 2), 1: (0, 1)}
    assert "do not end" in found.faults()[0]


def test_equal_undecodable_messages_are_separate() -> None:
    """Each one needs a dead letter."""
    bad = [Record(RecordPlace("in", 2, number), b"\xff\xfe no text", 1200) for number in range(2)]
    letters = [Letter(record.place, 1300) for record in bad]
    found = audit(
        [*source(), *bad], words(), joined(), letters, poison=[record.place for record in bad]
    )
    assert (found.lost, found.letters, found.without_letter) == ([], 2, [])


def test_duplicate_id_in_the_source_is_rejected() -> None:
    """The outputs of one message could replace those of the other."""
    with pytest.raises(ValueError, match="'m0' is twice"):
        audit(source(["m0 a", "m0 a"]), [], [], [])


PARTED = PartlyFailed(frozenset({"word 1"}), (("check", True), ("split", False)))
"""The second word of `m1 be quick` is never written."""
NOWHERE, IN_CHECK = RecordPlace("", -1, -1), RecordPlace("chaos.check", 0, 5)
ITS_LETTERS = [Letter(IN_CHECK, 1500, "check", "m1"), Letter(NOWHERE, 1501, "split")]


def parted_words() -> list[Record]:
    return [record for record in words() if b"quick" not in record.value]


def test_message_with_a_dead_tuple_has_all_other_outputs() -> None:
    """Each of these occurs once, and each dead tuple has a letter."""
    found = audit(
        source(), parted_words(), joined(), ITS_LETTERS, parted={RecordPlace("in", 1, 0): PARTED}
    )
    assert found.faults() == []
    assert (found.letters, len(found.duplicates)) == (1, 0)


def test_missing_output_besides_the_dead_tuple_is_lost() -> None:
    """Only the outputs of dead tuples may be missing."""
    records = [record for record in parted_words() if b"m1" not in record.value]
    found = audit(
        source(), records, joined(), ITS_LETTERS, parted={RecordPlace("in", 1, 0): PARTED}
    )
    assert [(lost.id, lost.missing) for lost in found.lost] == [("m1", "word 0")]


def test_repeated_output_besides_the_dead_tuple_is_a_duplicate() -> None:
    found = audit(
        source(),
        [*parted_words(), words()[6]],
        joined(),
        ITS_LETTERS,
        parted={RecordPlace("in", 1, 0): PARTED},
    )
    assert [copy.id for copy in found.duplicates] == ["m1"]


def test_output_of_a_dead_tuple_is_corrupted() -> None:
    """The tuple would be both processed and given up."""
    found = audit(
        source(), words(), joined(), ITS_LETTERS, parted={RecordPlace("in", 1, 0): PARTED}
    )
    assert [json.loads(record.value)["word"] for record in found.corrupted] == ["quick"]
    never = PartlyFailed(frozenset({"join"}), ())
    found = audit(source(), words(), joined(), [], parted={RecordPlace("in", 1, 0): never})
    assert [json.loads(record.value)["id"] for record in found.corrupted] == ["m1"]


@pytest.mark.parametrize(
    ("letters", "wrong"),
    [
        pytest.param(ITS_LETTERS[:1], "0 in place of 1 of 'split'", id="one is missing"),
        pytest.param(
            ITS_LETTERS[1:], "0 in place of 1 of 'check' for 'm1'", id="one with its id is missing"
        ),
        pytest.param(
            [*ITS_LETTERS, ITS_LETTERS[0]], "2 in place of 1 of 'check' for 'm1'", id="one is twice"
        ),
        pytest.param(
            [*ITS_LETTERS, Letter(NOWHERE, 1502, "words")],
            "1 in place of 0 of 'words'",
            id="of nothing",
        ),
    ],
)
def test_each_dead_tuple_has_one_letter(letters: list[Letter], wrong: str) -> None:
    """The topology gives up exactly the tuples that no bolt can process."""
    found = audit(
        source(), parted_words(), joined(), letters, parted={RecordPlace("in", 1, 0): PARTED}
    )
    assert found.wrong_letters == [wrong]
    assert "not as they should be" in found.faults()[0]


def test_dead_tuple_of_a_good_message_is_given_up() -> None:
    """The bolt could have processed it."""
    found = audit(source(), words(), joined(), [Letter(IN_CHECK, 1500, "check", "m1")])
    assert found.given_up == [RecordPlace("in", 1, 0)]

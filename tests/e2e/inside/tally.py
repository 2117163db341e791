"""Compares the output of a topology with the expected output of its messages.

Its only knowledge of kstorm is the format of a dead letter. The content of messages is known to a
`ExpectedOutput`.
"""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tests.e2e.inside.findings import Findings

_SHOWN: Final = 10


class MessagePlace(NamedTuple):
    """The position of a message in the source topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


class SinkRecord(NamedTuple):
    """A record of the sink."""

    value: bytes
    headers: Mapping[str, bytes]
    at: int
    """When it was written, in ms since 1970."""


class ExpectedOutput(Protocol):
    """The expected output of messages, computed without the topology."""

    def outputs_of(self, place: MessagePlace, value: bytes) -> Sequence[str]:
        """Return the names of a message's expected outputs.

        Raises `ValueError` if the message can never be processed.
        """

    def take(self, output: SinkRecord) -> str:
        """Record the content of an output, and return its name.

        Raises `ValueError` or `LookupError` if it has none.
        """

    def wrong(self) -> Sequence[str]:
        """Return a sentence for each error in the outputs."""

    def in_tables(self) -> Mapping[str, int]:
        """Return the expected numbers in the pipeline's tables, by key."""


class Tally:
    """Add all messages first, then the records of the sink and the dead letters."""

    def __init__(self, truth: ExpectedOutput) -> None:
        self._truth = truth
        self._came: dict[MessagePlace, int] = {}
        self._message_of: dict[str, MessagePlace] = {}  # by output
        self._missing = set[str]()
        self._finished: dict[MessagePlace, int] = {}
        self._strange = 0
        self._copies = Counter[int]()
        self._poison = set[MessagePlace]()
        self._letters = Counter[MessagePlace]()
        self._wrong_letters: list[str] = []

    def add_message(self, place: MessagePlace, value: bytes, at: int) -> None:
        """Add a source message. `at` is its arrival in ms since 1970."""
        self._came[place] = at
        try:
            names = self._truth.outputs_of(place, value)
        except ValueError:
            self._poison.add(place)
            return
        self._message_of.update(dict.fromkeys(names, place))
        self._missing.update(names)

    @property
    def complete(self) -> bool:
        """True once all expected output has arrived. There may be more."""
        return not self._missing and self._poison <= self._letters.keys()

    def take_output(self, output: SinkRecord) -> None:
        try:
            name = self._truth.take(output)
            message = self._message_of[name]
        except (ValueError, LookupError):
            self._strange += 1
            return
        if name in self._missing:
            self._missing.remove(name)
            self._finished[message] = max(output.at, self._finished.get(message, 0))
        else:
            self._copies[output.at // 1000] += 1

    def take_letter(self, value: bytes) -> None:
        try:
            place = _message_in(json.loads(value), {each.topic for each in self._came})
        except (ValueError, LookupError, TypeError) as error:
            self._wrong_letters.append(
                f"one that does not say which message it is about ({error!r}): {value[:200]!r}"
            )
            return
        self._letters[place] += 1
        if place not in self._poison:
            self._wrong_letters.append(f"one about {place}, which can be processed")
        elif self._letters[place] > 1:
            self._wrong_letters.append(f"one more about {place}")

    def findings(self) -> Findings:
        lettered = self._poison & self._letters.keys()
        return Findings(
            messages=len(self._came),
            due=len(self._message_of),
            lost=len(self._missing),
            some_lost=sorted(self._missing)[:_SHOWN],
            strange=self._strange,
            copies={str(second): count for second, count in sorted(self._copies.items())},
            wrong=list(self._truth.wrong())[:_SHOWN],
            letters=len(lettered),
            without_letter=sorted(map(str, self._poison - lettered))[:_SHOWN],
            wrong_letters=self._wrong_letters[:_SHOWN],
            slowest=self._slowest(),
            truth=dict(self._truth.in_tables()),
        )

    def _slowest(self) -> list[tuple[float, float]]:
        found: dict[int, tuple[float, float]] = {}
        for message, end in self._finished.items():
            begin = self._came[message]
            second, slowest = begin // 1000, found.get(begin // 1000, (0.0, 0.0))
            if (end - begin) / 1000 > slowest[1] - slowest[0]:
                found[second] = begin / 1000, end / 1000
        return sorted(found.values())


def _message_in(letter: dict[str, Any], sources: set[str]) -> MessagePlace:
    """Return the message of a dead letter.

    That is the letter's record, or the message whose coordinates are in the fields of a bolt's
    tuple. Raises `ValueError`, `LookupError` or `TypeError` if it names none.
    """
    place = MessagePlace(letter["topic"], letter["partition"], letter["offset"])
    if place.topic in sources:
        return place
    values = json.loads(base64.b64decode(letter["value"]))["values"]
    (source,) = sources
    return MessagePlace(source, values["partition"], values["offset"])

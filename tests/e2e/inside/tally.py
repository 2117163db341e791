"""Compares what came out of a topology with what must come of its messages. Knows nothing of kstorm but what a dead letter
looks like; nor what the messages are, which a `Truth` knows."""

import base64
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from tests.e2e.inside.findings import Findings

_SHOWN: Final = 10


class Place(NamedTuple):
    """Of a message in the source topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}-{self.offset}"


class Output(NamedTuple):
    """A record of the sink."""

    value: bytes
    headers: Mapping[str, bytes]
    at: int
    """When it was written, in ms since 1970."""


class Truth(Protocol):
    """What must come of messages, worked out without the topology."""

    def outputs_of(self, place: Place, value: bytes) -> Sequence[str]:
        """The names of the outputs that a message must have. Raises `ValueError` if it can never be processed."""
        ...

    def take(self, output: Output) -> str:
        """Notes what an output says, and gives its name. Raises `ValueError` or `LookupError` if it tells none."""
        ...

    def wrong(self) -> Sequence[str]:
        """What the outputs have said that is not so, a sentence each."""
        ...

    def in_tables(self) -> Mapping[str, int]:
        """What the pipeline's tables must have, by key."""
        ...


class Tally:
    """Give it all messages, then the records of the sink and the dead letters."""

    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._came: dict[Place, int] = {}
        self._message_of: dict[str, Place] = {}  # by output
        self._missing = set[str]()
        self._finished: dict[Place, int] = {}
        self._strange = 0
        self._copies = Counter[int]()
        self._poison = set[Place]()
        self._letters = Counter[Place]()
        self._wrong_letters: list[str] = []

    def add_message(self, place: Place, value: bytes, at: int) -> None:
        """A message of the source topic; `at`: when it came, in ms since 1970."""
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
        """Whether all is there that must be; there may be more."""
        return not self._missing and self._poison <= self._letters.keys()

    def take_output(self, output: Output) -> None:
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


def _message_in(letter: dict[str, Any], sources: set[str]) -> Place:
    """The message that a dead letter is about: itself, or a bolt's tuple that has the message's coordinates in its fields.

    Raises `ValueError`, `LookupError` or `TypeError` if it does not tell.
    """
    place = Place(letter["topic"], letter["partition"], letter["offset"])
    if place.topic in sources:
        return place
    values = json.loads(base64.b64decode(letter["value"]))["values"]
    (source,) = sources
    return Place(source, values["partition"], values["offset"])

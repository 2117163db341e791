"""The findings of the audit in the pod, in their exchange format."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Findings:
    messages: int = 0
    """Messages in the source topic."""
    due: int = 0
    """Their expected outputs."""
    lost: int = 0
    """Outputs that never arrived."""
    some_lost: list[str] = field(default_factory=list)
    strange: int = 0
    """Records of the sink that belong to no message."""
    copies: dict[str, int] = field(default_factory=dict)
    """Duplicate outputs, by the second since 1970 (as text) in which they were written."""
    wrong: list[str] = field(default_factory=list)
    """Some of the errors in the outputs, a sentence each."""
    letters: int = 0
    """Unprocessable messages that are in the dead letters."""
    without_letter: list[str] = field(default_factory=list)
    """Unprocessable messages that are not in the dead letters."""
    wrong_letters: list[str] = field(default_factory=list)
    """Dead letters that should not exist, a sentence each."""
    slowest: list[tuple[float, float]] = field(default_factory=list)
    """The slowest message of each second.

    Its arrival and the time of its last output are in seconds since 1970.
    """
    truth: dict[str, int] = field(default_factory=dict)
    """Expected numbers in the pipeline's tables, by key."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        found = json.loads(text)
        return cls(**{**found, "slowest": [(begin, end) for begin, end in found["slowest"]]})

    @property
    def written_again(self) -> int:
        return sum(self.copies.values())

    def faults(self, outputs: str) -> Iterator[str]:
        """Yield a sentence for each fault of an exactly-once topology. `outputs` is their name."""
        if self.lost:
            yield f"{self.lost:,} {outputs} were lost, such as {', '.join(self.some_lost)}"
        if self.strange:
            yield f"{self.strange:,} {outputs} are in the sink that no message has"
        if self.copies:
            yield f"{self.written_again:,} {outputs} were written again, although the topology is processed exactly once"
        if self.wrong:
            yield f"the sink is wrong: {'; '.join(self.wrong)}"
        if self.without_letter:
            yield f"no dead letter is about {', '.join(self.without_letter)}, which cannot be processed"
        if self.wrong_letters:
            yield f"dead letters are wrong: {'; '.join(self.wrong_letters)}"

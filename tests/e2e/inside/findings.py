"""What the audit in the pod found, as it comes out of there."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True)
class Findings:
    messages: int = 0
    """In the source topic."""
    due: int = 0
    """Outputs that must come of them."""
    lost: int = 0
    """Outputs that never came."""
    some_lost: list[str] = field(default_factory=list)
    strange: int = 0
    """Records of the sink that no message asks for."""
    copies: dict[str, int] = field(default_factory=dict)
    """By the second since 1970, as text: outputs that were written again then."""
    wrong: list[str] = field(default_factory=list)
    """What the outputs say that is not so, a sentence each; some of it."""
    letters: int = 0
    """Messages that can never be processed and are in the dead letters."""
    without_letter: list[str] = field(default_factory=list)
    """Messages that can never be processed and are not in the dead letters."""
    wrong_letters: list[str] = field(default_factory=list)
    """Dead letters that should not be there, a sentence each."""
    slowest: list[tuple[float, float]] = field(default_factory=list)
    """Of the messages that came within a second the one that took longest: when it came, and when its last output was there, in
    seconds since 1970."""
    truth: dict[str, int] = field(default_factory=dict)
    """What the pipeline's tables must have, by key."""

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
        """What must not be of a topology that is processed exactly once, a sentence each. `outputs`: what they are called."""
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

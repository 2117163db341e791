"""Runs sentences through the core, always with the same ids: `SENTENCES TASKS batches|tuples`."""

import sys
from random import Random

from tests.bench.inprocess import InProcess

WORDS, POLL = 10, 500


def lines(number: int) -> list[str]:
    """Returns sentences of ten words, the same on every run."""
    random = Random(1)
    return [
        f"{line} " + " ".join(f"word{random.randrange(500)}" for _ in range(WORDS))
        for line in range(number)
    ]


def through(pipe: InProcess, sentences: list[str]) -> None:
    """Passes sentences to the topology, a poll at a time."""
    for at in range(0, len(sentences), POLL):
        pipe.run(sentences[at : at + POLL])


def main(sentences: int, tasks: int, batches: bool) -> None:
    ids = Random(2)
    pipe = InProcess(tasks=tasks, batches=batches, next_id=lambda: ids.getrandbits(64) | 1)
    through(pipe, lines(sentences))
    assert pipe.finished == sentences


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "batches")

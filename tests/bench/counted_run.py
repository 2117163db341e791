"""Runs sentences through the core, always with the same ids: `SENTENCES TASKS batches|tuples`."""

import sys
from random import Random

from tests.bench.inprocess import InProcess

_POLL, _WORDS = 500, 10


def main(sentences: int, tasks: int, batches: bool) -> None:
    ids, words = Random(1), Random(2)
    pipe = InProcess(tasks=tasks, batches=batches, next_id=lambda: ids.getrandbits(64) | 1)
    lines = [
        f"{line} " + " ".join(f"word{words.randrange(500)}" for _ in range(_WORDS))
        for line in range(sentences)
    ]
    for at in range(0, sentences, _POLL):
        pipe.run(lines[at : at + _POLL])
    assert pipe.finished == sentences


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "batches")

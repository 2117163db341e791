"""The word count, fed with this project's documentation."""

from collections.abc import Sequence
from typing import Final

from tests.e2e.kube import in_checkout
from tests.e2e.trial import Tables, Trial

_TEXTS: Final = (
    "README.md",
    "docs/concepts/guarantees.md",
    "docs/guides/kafka.md",
    "docs/guides/testing.md",
)


def _lines() -> Sequence[str]:
    return [
        line
        for name in _TEXTS
        for line in in_checkout(name).read_text().splitlines()
        if line.split()
    ]


WORDCOUNT: Final = Trial(
    name="wordcount",
    reference="examples.wordcount.topology:topology",
    source="sentences",
    sink="word-counts",
    spout="sentences",
    bolts=("split", "count", "sink"),
    stateless="split",
    stateful="count",
    holding="",
    outputs="words",
    lines=_lines,
    audit="words",
    probe="{marker}",
    tables=Tables(
        "examples.wordcount.tables:pipeline", "word_counts", "word", "occurrences", "words"
    ),
)

"""The demo's text: the sentences of CPython's own language reference, which every Python brings along."""

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pydoc_data.topics import topics
from typing import Final

_BETWEEN_PARAGRAPHS: Final = re.compile(r"\n\s*\n")
_BETWEEN_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_CODE: Final = re.compile(r"::=|>>>|[|=]{2}|\+--")
_FEWEST_WORDS: Final = 3


@cache
def sentences() -> tuple[str, ...]:
    """All sentences, in a fixed order; grammar, code and tables are left out. None is empty."""
    found: list[str] = []
    for name in sorted(topics):
        for paragraph in _BETWEEN_PARAGRAPHS.split(topics[name]):
            if not _CODE.search(paragraph):
                found += _sentences_of(" ".join(paragraph.split()))
    return tuple(found)


def messages(count: int) -> list[str]:
    """The first `count` sentences, from the beginning again once they are used up."""
    return list(itertools.islice(itertools.cycle(sentences()), count))


def _sentences_of(paragraph: str) -> Iterator[str]:
    for sentence in _BETWEEN_SENTENCES.split(paragraph):
        if sentence.endswith((".", "!", "?")) and len(sentence.split()) >= _FEWEST_WORDS:
            yield sentence

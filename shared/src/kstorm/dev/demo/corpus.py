"""The demo's text: the sentences of CPython's language reference, which every Python installation
includes."""

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
    """All sentences, in a fixed order, without grammar, code and tables. No sentence is empty."""
    found: list[str] = []
    for name in sorted(topics):
        for paragraph in _BETWEEN_PARAGRAPHS.split(topics[name]):
            if not _CODE.search(paragraph):
                found += _sentences_of(" ".join(paragraph.split()))
    return tuple(found)


def messages(count: int) -> list[str]:
    """Return `count` sentences, starting again at the first one after the last."""
    return list(itertools.islice(itertools.cycle(sentences()), count))


def _sentences_of(paragraph: str) -> Iterator[str]:
    for sentence in _BETWEEN_SENTENCES.split(paragraph):
        if sentence.endswith((".", "!", "?")) and len(sentence.split()) >= _FEWEST_WORDS:
            yield sentence

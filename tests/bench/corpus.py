"""The benchmark's sentences, the same on every machine: 8 to 12 words from a vocabulary of 5,000.

A few words, or a single one, are very frequent.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

WORDS_PER_SENTENCE: Final = 10
"""On average."""

_VOCABULARY: Final = 5000
_SEED: Final = 20110919  # the day of Storm's first release
_SYLLABLES: Final = tuple(
    f"{consonant}{vowel}" for consonant in "bdfgklmnprstvz" for vowel in "aeiou"
)


@cache
def vocabulary() -> tuple[str, ...]:
    """Return all words, the most frequent first. They are invented, of two or three syllables."""
    short = itertools.product(_SYLLABLES, repeat=2)
    long = itertools.product(_SYLLABLES, repeat=3)
    return tuple(
        "".join(word) for word in itertools.islice(itertools.chain(short, long), _VOCABULARY)
    )


@lru_cache(2)
def texts(count: int, skew: float | None = None) -> tuple[str, ...]:
    """Return the first `count` sentences, without ids. A longer sequence starts with the same ones.

    `skew` is the most frequent word's share of all words, from 0 to 1. The default is Zipf's 11 %.
    """
    chooser = random.Random(_SEED)
    words, weights = vocabulary(), _cumulative_weights(skew)
    return tuple(
        " ".join(chooser.choices(words, cum_weights=weights, k=8 + int(5 * chooser.random())))
        for _ in range(count)
    )


def true_counts(sentences: Iterable[str]) -> Counter[str]:
    """Return the number of occurrences of each word, for comparison with a contestant's counts."""
    return Counter(word for sentence in sentences for word in sentence.split())


@cache
def _cumulative_weights(skew: float | None) -> tuple[float, ...]:
    """Apply Zipf's law: the frequency of the word of rank r is proportional to 1/r."""
    weights = [1 / rank for rank in range(1, _VOCABULARY + 1)]
    if skew is not None:
        weights[0] = sum(weights[1:]) * skew / (1 - skew)
    return tuple(itertools.accumulate(weights))

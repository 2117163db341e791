"""Approximate number of distinct values, with a sketch of Apache DataSketches. A sketch takes a few
kilobytes, however many values there are.

It needs `pip install 'kstorm[sketches]'` where streams are wired and where they are processed.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from kstorm.errors import ConfigError
from kstorm.fitting import Positive, checked
from kstorm.topology.keys import key_text, list_text
from kstorm.trident.aggregators import Columns, CombinerAggregator, Tuples
from kstorm.trident.tuple import TridentTuple

DEFAULT_PRECISION = 12
_FINEST = 21


class ApproximateDistinct(CombinerAggregator):
    """The number of distinct values of the input fields, with a relative error of about 1.04 /
    sqrt(2 ** precision)."""

    @checked()
    def __init__(self, precision: Positive = DEFAULT_PRECISION) -> None:
        """`precision` is from 4 to 21. The default of 12 means an error of 1.6 % and about 2 KiB
        per group.

        Each additional 1 multiplies the error by 0.7 and doubles the size of the sketch. Do not
        change it while values are stored. Raises `ConfigError` if it is out of range or if the
        library is not installed.
        """
        if not 4 <= precision <= _FINEST:
            raise ConfigError(
                f"ApproximateDistinct(precision={precision}): give a number from 4 to {_FINEST}"
            )
        self._precision = precision
        _library()

    def init(self, tuple: TridentTuple) -> bytes:
        """Return the sketch of one value."""
        return self._sketch([_text(tuple.values)])

    def combine(self, one: bytes, other: bytes) -> bytes:
        """Return the union of two sketches."""
        return self._union([one, other])

    def zero(self) -> bytes:
        """Return an empty sketch."""
        return self._sketch([])

    def fold_columns(
        self, keys: Sequence[Any], columns: Columns, tuples: Tuples
    ) -> dict[Any, bytes]:
        texts: defaultdict[Any, list[str]] = defaultdict(list)
        for key, values in zip(keys, zip(*columns, strict=True), strict=True):
            texts[key].append(_text(values))
        return {key: self._sketch(found) for key, found in texts.items()}

    def fold(self, keys: Sequence[Any], values: Sequence[bytes]) -> dict[Any, bytes]:
        sketches: defaultdict[Any, list[bytes]] = defaultdict(list)
        for key, value in zip(keys, values, strict=True):
            sketches[key].append(value)
        return {
            key: found[0] if len(found) == 1 else self._union(found)
            for key, found in sketches.items()
        }

    def result(self, value: bytes) -> int:
        """Return the rounded estimate."""
        estimate: float = _library().hll_sketch.deserialize(value).get_estimate()
        return round(estimate)

    def _sketch(self, texts: Sequence[str]) -> bytes:
        library = _library()
        sketch = library.hll_sketch(self._precision, library.tgt_hll_type.HLL_4)
        for text in texts:
            sketch.update(text)
        return bytes(sketch.serialize_compact())

    def _union(self, sketches: Sequence[bytes]) -> bytes:
        library = _library()
        union = library.hll_union(self._precision)
        for sketch in sketches:
            union.update(library.hll_sketch.deserialize(sketch))
        return bytes(union.get_result(library.tgt_hll_type.HLL_4).serialize_compact())


def _text(values: Sequence[Any]) -> str:
    # A sketch ignores an empty text.
    return key_text(values) or list_text(values)


def _library() -> Any:
    try:
        import datasketches
    except ImportError as error:
        raise ConfigError(
            "ApproximateDistinct needs the package datasketches: pip install 'kstorm[sketches]'"
        ) from error
    return datasketches

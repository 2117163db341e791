"""The IDs of tuples in W3C Trace Context and OpenTelemetry, and the header `traceparent`.

    00-<trace id>-<span id>-<flags>      in hexadecimal digits: 32, 16 and 2

No extra context is propagated, because roots and edges already serve as IDs. A span id is the edge
of its tuple, or the root for the message itself. A trace id is a hash of the topology's name
followed by the root. So a tuple's span id is known even if no span was created.
"""

import re
from hashlib import sha256
from typing import Any, Final, NamedTuple

TRACEPARENT: Final = "traceparent"
_SAMPLED: Final = 1
_RANDOM: Final = 2
"""The last 56 bits of the trace id are random, like those of a root. Samplers may use them."""
_FORM: Final = re.compile("([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_RANDOM_BITS: Final = (1 << 56) - 1
_ID_DIGITS: Final = 16


class Parent(NamedTuple):
    """The parsed parts of a `traceparent`."""

    trace: int
    span: int
    flags: int


def trace_prefix(topology: str) -> int:
    """Return the first half of a topology's trace ids: 64 bits, not 0."""
    return int.from_bytes(sha256(topology.encode()).digest()[:8], "big")


def trace_id(prefix: int, root: int) -> int:
    return prefix << 64 | root


def parse(header: str) -> Parent | None:
    """Parse a `traceparent` of any version, or None if it is invalid by W3C's rules.

    Zero ids and version ff are invalid, for example.
    """
    found = _FORM.fullmatch(header)
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    parent = Parent(int(found[2], 16), int(found[3], 16), int(found[4], 16))
    return parent if parent.trace and parent.span else None


class Traceparents:
    """Builds the headers of one topology.

    `sampled` is the share of its trees, from 0 to 1, that are flagged as sampled. The decision
    depends on the last 56 bits of the root, as in OpenTelemetry's samplers, so all records of a
    tree agree.
    """

    def __init__(self, topology: str, sampled: float = 1.0) -> None:
        self._start = f"00-{trace_prefix(topology):016x}"
        self._least = round((1 - sampled) * (1 << 56))
        self._flags = tuple(f"-{flags:02x}" for flags in (_RANDOM, _RANDOM | _SAMPLED))

    def of(self, root: int, edge: int) -> str:
        """Return the header of one tuple, or "" if the tuple does not belong to a tree."""
        if not root or not edge:
            return ""
        return f"{self._start}{root:016x}-{edge:016x}{self._flags[(root & _RANDOM_BITS) >= self._least]}"

    def of_columns(self, roots: Any, edges: Any) -> list[str]:
        """Return the headers for arrays of 64-bit ids, like `of` for each tuple."""
        # Loading numpy is slow, and commands do not need it.
        import numpy as np

        start, flags, least = self._start, self._flags, self._least
        sampled = ((roots & np.uint64(_RANDOM_BITS)) >= np.uint64(least)).tolist()
        known = (roots.astype(bool) & edges.astype(bool)).tolist()
        trees, spans = _digits(roots), _digits(edges)
        return [
            f"{start}{trees[at : at + 16]}-{spans[at : at + 16]}{flags[picked]}" if there else ""
            for at, picked, there in zip(
                range(0, len(trees), _ID_DIGITS), sampled, known, strict=True
            )
        ]


def _digits(ids: Any) -> str:
    """Return 16 hexadecimal digits per id, concatenated."""
    return str(ids.astype(">u8").tobytes().hex())

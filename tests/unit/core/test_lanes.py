"""Lanes keep the order of tuples, however they were put."""

from random import Random

import pytest

from kstorm.core.columns import as_ids
from kstorm.core.lanes import Lane
from kstorm.core.wire import pack_ids, unpack_ids

WAYS = ("one by one", "frame", "untracked frame", "batch")


@pytest.mark.parametrize("seed", range(50))
def test_ways_mixed(seed: int) -> None:
    """Ids and anchors stay with their tuple. A drain in between takes no unfinished frame."""
    random = Random(seed)
    lane, number = Lane("words", 1, "default", "t", 0, 5), 0
    put: list[tuple[int, int, int, list[int]]] = []
    taken: list[tuple[int, int, int, list[int]]] = []
    for _ in range(30):
        way, count = random.choice(WAYS), random.randint(1, 4)
        numbers = list(range(number, number + count))
        number += count
        tracked = way != "untracked frame"
        ids = [(n + 1000, n + 2000) if tracked else (0, 0) for n in numbers]
        parents = {
            at: [7 * number + at] for at in range(count) if tracked and random.random() < 0.3
        }
        roots, edges = (pack_ids(list(column)) for column in zip(*ids, strict=True))
        match way:
            case "one by one":
                for at, n in enumerate(numbers):
                    if at in parents:
                        lane.parents[len(lane.rows)] = parents[at]
                    lane.rows.append((n,))
                    lane.roots.append(n + 1000)
                    lane.edges.append(n + 2000)
            case "batch":
                lane.put([numbers], count, as_ids(roots), as_ids(edges), parents)
            case _:
                lane.frame_rows += [(n,) for n in numbers]
                lane.frame_at += range(count)
                if random.random() < 0.3 and lane.has_tuples:
                    _take(lane, taken)
                if not tracked:
                    roots = edges = b""
                lane.gather_frame(roots, edges, parents)
        put += [
            (n, *pair, parents.get(at, []))
            for at, (n, pair) in enumerate(zip(numbers, ids, strict=True))
        ]
        if random.random() < 0.2 and lane.has_tuples:
            _take(lane, taken)
    if lane.has_tuples:
        _take(lane, taken)
    assert taken == put
    assert not lane.has_tuples


def _take(lane: Lane, taken: list[tuple[int, int, int, list[int]]]) -> None:
    rows = lane.take()
    roots, edges = (
        unpack_ids(column) if column else [0] * rows.count for column in (rows.roots, rows.edges)
    )
    taken += [
        (n, root, edge, rows.parents.get(at, []))
        for at, (n, root, edge) in enumerate(zip(rows.columns[0], roots, edges, strict=True))
    ]

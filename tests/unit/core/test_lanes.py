"""Lanes keep the order of tuples, whichever methods added them."""

from random import Random

import pytest

from kstorm.core.columns import as_ids
from kstorm.core.lanes import Lane, LaneRows, take_together
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
    _add(lane.take(), taken)


def _add(rows: LaneRows, taken: list[tuple[int, int, int, list[int]]]) -> None:
    roots, edges = (
        unpack_ids(column) if column else [0] * rows.count for column in (rows.roots, rows.edges)
    )
    taken += [
        (n, root, edge, rows.parents.get(at, []))
        for at, (n, root, edge) in enumerate(zip(rows.columns[0], roots, edges, strict=True))
    ]


@pytest.mark.parametrize("seed", range(50))
def test_lanes_of_several_tasks_are_taken_together(seed: int) -> None:
    """Each task's tuples keep their order, ids, anchors and task."""
    random = Random(seed)
    lanes = [Lane("words", task, "default", "t", 0, 5) for task in (1, 2, 3)]
    put: list[tuple[int, int, int, int, list[int]]] = []
    ways = WAYS[1:3] if seed % 2 else WAYS
    for number in range(0, 40, 4):
        lane, way = random.choice(lanes), random.choice(ways)
        numbers = list(range(number, number + random.randint(1, 4)))
        tracked = way != "untracked frame"
        roots, edges = (
            pack_ids([first + n for n in numbers]) if tracked else b"" for first in (1000, 2000)
        )
        parents = {0: [number + 7]} if tracked and random.random() < 0.5 else {}
        match way:
            case "one by one":
                if parents:
                    lane.parents[len(lane.rows)] = parents[0]
                lane.rows += [(n,) for n in numbers]
                lane.roots += [n + 1000 for n in numbers]
                lane.edges += [n + 2000 for n in numbers]
            case "batch":
                lane.put([numbers], len(numbers), as_ids(roots), as_ids(edges), parents)
            case _:
                lane.frame_rows += [(n,) for n in numbers]
                lane.frame_at += range(len(numbers))
                lane.gather_frame(roots, edges, parents)
        put += [
            (lane.task, n, *((n + 1000, n + 2000) if tracked else (0, 0)), parents.get(at, []))
            for at, n in enumerate(numbers)
        ]
    full = [lane for lane in lanes if lane.has_tuples]
    rows = take_together(full)
    tasks = [task for task, count in rows.runs for _ in range(count)]
    taken: list[tuple[int, int, int, list[int]]] = []
    _add(rows, taken)
    found = [(task, *one) for task, one in zip(tasks, taken, strict=True)]
    assert found == sorted(put, key=lambda one: one[0])
    assert not any(lane.has_tuples for lane in lanes)

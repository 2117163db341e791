"""Shrinks a list of causes to the fewest that still have the same effect."""

from collections.abc import Callable, Sequence


def shrink(
    causes: Sequence[int], is_enough: Callable[[Sequence[int]], bool], most_tries: int = 100
) -> list[int]:
    """Drop unneeded causes, in large pieces first.

    Stops when no single cause can be dropped, or after `most_tries` calls of `is_enough`.
    """
    left, piece = list(causes), len(causes)
    while piece and most_tries:
        at = len(left)
        while at > 0 and most_tries:
            most_tries -= 1
            some = left[: max(0, at - piece)] + left[at:]
            if is_enough(some):
                left = some
            at -= piece
        piece //= 2
    return left

"""The fewest of some causes that still have their effect."""

from collections.abc import Callable, Sequence


def fewest(
    causes: Sequence[int], is_enough: Callable[[Sequence[int]], bool], most_tries: int = 100
) -> list[int]:
    """Leaves out whatever is not needed, in big pieces first, until no single one can be left out, or after `most_tries`."""
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

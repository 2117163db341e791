"""The components that the tuples of a component reach."""

from collections.abc import Mapping, Sequence

from kstorm.operations.status.snapshots import ComponentChange


def downstream(components: Sequence[ComponentChange]) -> dict[str, set[str]]:
    """Return for each component the components that its tuples reach, which always include the
    ackers."""
    targets: dict[str, set[str]] = {component.name: set() for component in components}
    ackers = {component.name for component in components if component.kind == "acker"}
    for component in components:
        for page in component.after.pages:
            targets[component.name] |= {str(edge["target"]) for edge in page.get("edges", ())}
    return {name: _reached(name, targets) | ackers for name in targets}


def _reached(name: str, targets: Mapping[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [name]
    while left:
        following = targets.get(left.pop(), set()) - found
        found |= following
        left += following
    return found

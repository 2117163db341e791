"""Describe a compiled topology as text and as a graph."""

from kstorm.texts import graphviz
from kstorm.topology import ComponentSpec, Input
from kstorm.topology.groupings import KeyedGrouping
from kstorm.trident.compile import CompiledTopology


def as_text(plan: CompiledTopology) -> str:
    """Return a paragraph for each component: its ID, parallelism, inputs and operations."""
    lines = [
        (
            f"{plan.topology.name}, "
            f"{plan.topology.config.topology_processing_guarantee.replace('_', ' ')}"
        )
    ]
    for id, spec in plan.topology.components.items():
        lines.append(f"  {id} ×{spec.parallelism}{_fields(spec)}")
        lines += [f"    from {_input(each)}" for each in spec.inputs]
        lines += [f"    {title}" for title in plan.operations[id]]
    return "\n".join(lines)


def as_dot(plan: CompiledTopology) -> str:
    """Return the graph in Graphviz's DOT language."""
    lines = [f"digraph {graphviz(plan.topology.name)} {{", "  rankdir=LR; node [shape=box];"]
    for id in plan.topology.components:
        label = "\n".join([id, *plan.operations[id]])
        lines.append(f"  {graphviz(id)} [label={graphviz(label)}];")
    lines += [
        f"  {graphviz(each.component)} -> {graphviz(id)} [label={graphviz(_grouping(each))}];"
        for id, spec in plan.topology.components.items()
        for each in spec.inputs
    ]
    return "\n".join([*lines, "}"])


def _fields(spec: ComponentSpec) -> str:
    streams = [", ".join(stream.fields) for stream in spec.streams.values() if len(stream.fields)]
    return f" → {' | '.join(streams)}" if streams else ""


def _input(each: Input) -> str:
    stream = "" if each.stream == "default" else f" ({each.stream})"
    return f"{each.component}{stream}, {_grouping(each)}"


def _grouping(each: Input) -> str:
    if isinstance(each.grouping, KeyedGrouping):
        return f"by {', '.join(each.grouping.fields)}"
    return str(each.grouping)

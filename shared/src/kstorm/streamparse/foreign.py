"""streamparse's components that are not Python classes."""

from collections.abc import Mapping, Sequence
from typing import Any

from kstorm.errors import TopologyError
from kstorm.fitting import checked
from kstorm.streamparse.component import Component
from kstorm.streamparse.specs import ComponentSpec, Inputs, JavaClass, spec_of


class JavaBolt(Component):
    """A bolt in Java. A topology with one is refused when it is built."""

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: str | None = None,
        serialized_java: bytes | None = None,
        full_class_name: str | None = None,
        args_list: Sequence[Any] | None = None,
        inputs: Inputs = None,
        par: int | Mapping[str, int] | None = 1,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a bolt in Java by its class."""
        return spec_of(
            "bolt",
            JavaClass(full_class_name or "of serialized bytes"),
            full_class_name or cls.__name__,
            outputs=outputs,
            name=name,
            inputs=inputs,
            par=par,
            config=config,
        )


class JavaSpout(Component):
    """A spout in Java. A topology with one is refused when it is built."""

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: str | None = None,
        serialized_java: bytes | None = None,
        full_class_name: str | None = None,
        args_list: Sequence[Any] | None = None,
        par: int | Mapping[str, int] | None = 1,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a spout in Java by its class."""
        return spec_of(
            "spout",
            JavaClass(full_class_name or "of serialized bytes"),
            full_class_name or cls.__name__,
            outputs=outputs,
            name=name,
            inputs=None,
            par=par,
            config=config,
        )


def refuse_java(id: str, spec: ComponentSpec) -> TopologyError:
    """Return the error for a component in Java."""
    if spec.kind == "spout":
        remedy = (
            "read its topic with a spout of kstorm: kstorm_spec(KafkaSpout(…)) of "
            "kstorm.streamparse; or run it as a program: ShellSpout"
        )
    else:
        remedy = "write it in Python, or run it as a program that speaks multilang: ShellBolt"
    return TopologyError(
        f"the {spec.kind} {id!r} is the Java class {spec.runs.name}, and kstorm has no Java "
        f"virtual machine: {remedy}"
    )

"""All public classes, functions and methods are documented.

A method may inherit its text from a base class or a protocol.
"""

import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from types import FunctionType, ModuleType

import pytest

PUBLIC = (
    "kstorm.flux",
    "kstorm.kafka",
    "kstorm.multilang",
    "kstorm.queues",
    "kstorm.registry",
    "kstorm.streamparse",
    "kstorm.testing",
    "kstorm.testing.kafka",
    "kstorm.topology",
    "kstorm.trident",
    "kstorm.windows",
)

_METHODS = (FunctionType, classmethod, staticmethod, property, cached_property)


def undocumented(package: str) -> Iterator[str]:
    module = importlib.import_module(package)
    documented = set(_documented_by_protocols(module))
    for name in module.__all__:
        exported = getattr(module, name)
        if not isinstance(exported, type | FunctionType):
            continue
        if not inspect.getdoc(exported):
            yield f"{package}.{name}"
        if isinstance(exported, type) and exported.__module__.startswith("kstorm."):
            for method, found in vars(exported).items():
                if method.startswith("_") or not isinstance(found, _METHODS):
                    continue
                if method not in documented and not inspect.getdoc(getattr(exported, method)):
                    yield f"{package}.{name}.{method}"


def _documented_by_protocols(module: ModuleType) -> Iterator[str]:
    exported = (getattr(module, name) for name in module.__all__)
    for protocol in filter(_is_protocol, exported):
        yield from (name for name, method in vars(protocol).items() if inspect.getdoc(method))


def _is_protocol(exported: object) -> bool:
    return isinstance(exported, type) and getattr(exported, "_is_protocol", False)


@pytest.mark.parametrize("package", PUBLIC)
def test_exported_names_are_documented(package: str) -> None:
    assert list(undocumented(package)) == []

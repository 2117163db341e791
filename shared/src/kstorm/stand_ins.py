"""Lets the imports of packages that kstorm stands in for succeed: `import streamparse`, `import pystorm`.

A streamparse project then runs unchanged. kstorm's modules take precedence over installed
packages of these names, because those can only describe topologies for Storm. Processes that kstorm
starts, such as the child of a `ShellBolt`, import the installed packages.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

from kstorm.errors import ConfigError

_PACKAGES: Final = {
    "streamparse": "kstorm.streamparse.modules",
    "pystorm": "kstorm.streamparse.modules",
}
"""For each package, the module whose `MODULES` lists the names of the package's modules."""


class AbsentModuleError(ConfigError, ImportError):
    """A module of a package that kstorm stands in for has no counterpart in kstorm."""


class _StandIn(Loader):
    """Fills a module with the names of its counterpart."""

    def __init__(self, names: dict[str, object], submodules: Sequence[str]) -> None:
        self._names, self._submodules = names, submodules

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names)
        for name in self._submodules:  # the packages import them, too
            import_module(name)


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        package = fullname.partition(".")[0]
        if package not in _PACKAGES:
            return None
        modules = import_module(_PACKAGES[package]).MODULES
        if fullname not in modules:
            raise AbsentModuleError(
                f"kstorm has no module {fullname!r}: it stands in for "
                f"{', '.join(name for name in modules if name.startswith(package))}; remove the "
                "import, or see docs/guides/from-streamparse.md for the counterpart"
            )
        below = [
            name for name in modules if name.rpartition(".")[0] == fullname and name != fullname
        ]
        loader = _StandIn(modules[fullname], below)
        return ModuleSpec(fullname, loader, origin="kstorm", is_package=bool(below))


_FINDER: Final = _Finder()


def install() -> None:
    """Let further imports of these packages find kstorm's modules. A second call does nothing."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def installed_before() -> str:
    """Return the name of a real package that was imported before `install`, or ""."""
    for name in _PACKAGES:
        module = sys.modules.get(name)
        if module is not None and not isinstance(getattr(module, "__loader__", None), _StandIn):
            return name
    return ""

"""Imports a user's pipeline by name."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from kstorm_pipeline.errors import SettingsError
from kstorm_pipeline.pipeline import Pipeline


def load_pipeline(reference: str) -> Pipeline:
    """Return the pipeline named by `package.module:attribute`, or the default if it is empty.

    The default takes any topic. Modules in the current folder can be imported.
    """
    if not reference:
        return Pipeline()
    module_name, _, attribute = reference.partition(":")
    if not module_name or module_name.startswith(".") or not attribute:
        raise SettingsError(
            f"the pipeline {reference!r} is not of the form package.module:attribute"
        )
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not (
            module_name == error.name or module_name.startswith(f"{error.name}.")
        ):
            raise SettingsError(
                f"the pipeline {reference!r} needs the module {error.name!r}, which is not installed"
            ) from None
        raise SettingsError(
            f"the pipeline {reference!r}: "
            f"there is no module {error.name!r} in {Path.cwd()} or on PYTHONPATH"
        ) from None
    except AttributeError:
        raise SettingsError(
            f"the pipeline {reference!r}: the module {module_name} has no {attribute!r}"
        ) from None
    pipeline = found() if callable(found) else found
    if not isinstance(pipeline, Pipeline):
        raise SettingsError(
            f"{reference!r} is a {type(pipeline).__name__}, not a kstorm_pipeline.Pipeline"
        )
    return pipeline

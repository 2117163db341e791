"""A process imports only the modules that it uses, because imports are most of its start time."""

import subprocess
import sys

import pytest

from kstorm.runtime.base.skipped_imports import skipped_imports


@pytest.mark.parametrize("service", ["kstorm_bolt", "kstorm_spout", "kstorm_acker"])
def test_services_import_nothing_for_people_or_yaml(service: str) -> None:
    script = f"""
import {service}.__main__, sys
print([name for name in ("rich", "pygments", "yaml") if name in sys.modules])
import rich, yaml
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_skipped_module_can_be_imported_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    import json.tool as loaded

    monkeypatch.delitem(sys.modules, "this", raising=False)
    with skipped_imports("this", "json.tool"):
        with pytest.raises(ImportError):
            __import__("this")
        assert sys.modules["json.tool"] is loaded
    assert "this" not in sys.modules
    assert sys.modules["json.tool"] is loaded

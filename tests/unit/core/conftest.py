"""The fixtures of the tests of a bolt's task."""

import pytest

from tests.unit.core.bolt_harness import Harness, Plain


@pytest.fixture
def bolt() -> Plain:
    return Plain()


@pytest.fixture
def harness(bolt: Plain) -> Harness:
    return Harness(bolt)

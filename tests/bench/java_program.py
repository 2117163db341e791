"""`python -m tests.bench.java_program NAME`: a contestant in Java, with its jars from Maven.

The program is one source file, compiled before the contestant's first record, so outside of all
measured windows.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.dev.command_exit import run_command
from kstorm.dev.jars import jars_of
from kstorm.dev.java import Java, find_java
from kstorm.errors import LocalError
from tests.bench.run_parameters import from_environment

_FOLDER: Final = Path(__file__).with_name("java")


@dataclass(frozen=True, slots=True)
class JavaProgram:
    source: str
    """The file in `tests/bench/java`."""
    jars: str
    """The list in the same folder, without `.sha256`."""


PROGRAMS: Final = {
    "kafka-streams": JavaProgram("StreamsWordCount.java", "kafka-streams-4.1.2"),
    "storm": JavaProgram("StormWordCount.java", "storm-2.8.3"),
}


def run_program(name: str) -> int:
    """Compile the program and replace this process by it. Raises `LocalError` if that fails."""
    program, folder = PROGRAMS[name], from_environment().directory
    java = find_java()
    jars = os.pathsep.join(map(str, jars_of(_FOLDER / f"{program.jars}.sha256")))
    _compile(java, _FOLDER / program.source, jars, folder)
    options = ["-Xmx2g", f"-Djava.io.tmpdir={folder}", "-cp", os.pathsep.join((str(folder), jars))]
    os.execv(java.executable, [str(java.executable), *options, Path(program.source).stem])


def _compile(java: Java, source: Path, jars: str, target: Path) -> None:
    compiler = java.home / "bin" / "javac"
    if not compiler.exists():
        raise LocalError(
            f"the Java in {java.home} has no compiler, which Kafka Streams and Storm need here: install "
            "a JDK, or leave them out with --only"
        )
    command: list[str | Path] = [compiler, "-nowarn", "-cp", jars, "-d", target, source]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode:
        raise LocalError(f"{source} does not compile:\n{compiled.stderr[-2000:]}")


if __name__ == "__main__":
    sys.exit(run_command("kstorm bench java", lambda: run_program(sys.argv[1])))

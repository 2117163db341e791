"""The classes of a short run of Spark, in one file that Java maps into its memory: such a run has them at once.

Java makes the file at the end of a run that is there for it (`kstorm_pipeline.rehearse`), and takes it only where Java, jars and
their order are the same; else it goes on without, and says nothing.
"""

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from kstorm.local.jars import spark_jars
from kstorm.local.java import SHORT_RUN_OPTIONS, find_java, spark_environment, spark_home
from kstorm.local.paths import cache_directory, exclusive

_SILENT: Final = "-Xlog:cds*=off"
_LONGEST_SECS: Final = 300.0


def short_run_options() -> str:
    """Java's options for a Spark of a minute or two, with the file of classes if there is one."""
    archive = _archive()
    return (
        f"{SHORT_RUN_OPTIONS} -XX:SharedArchiveFile={archive} {_SILENT}"
        if archive.exists()
        else SHORT_RUN_OPTIONS
    )


def make_archive() -> None:
    """Make the file of classes, if there is none. Where that fails it is said once, and runs start as they do without."""
    archive = _archive()
    failed, unfinished = archive.with_suffix(".failed"), archive.with_suffix(".unfinished")
    if archive.exists() or failed.exists():
        return
    with exclusive(archive.with_suffix(".lock")):
        if archive.exists() or failed.exists():
            return
        print(
            "kstorm: noting which classes Spark takes, once (half a minute)",
            file=sys.stderr,
            flush=True,
        )
        options = f"{SHORT_RUN_OPTIONS} -XX:ArchiveClassesAtExit={unfinished} {_SILENT}"
        command = [
            sys.executable,
            "-m",
            "kstorm_pipeline.rehearse",
            ",".join(map(str, spark_jars())),
            options,
        ]
        environment = {**os.environ, **spark_environment()}
        try:
            subprocess.run(
                command, env=environment, capture_output=True, timeout=_LONGEST_SECS, check=True
            )
            unfinished.replace(archive)
        except (OSError, subprocess.SubprocessError) as error:
            unfinished.unlink(missing_ok=True)
            failed.write_text(
                f"{error}\n{(getattr(error, 'stderr', None) or b'').decode(errors='replace')}"
            )
            say = f"that failed, so Spark takes some seconds longer to start; {failed} says why, and without it this is tried again"
            print(f"kstorm: {say}", file=sys.stderr)
        _remove_others(archive)


def _archive() -> Path:
    """Where the file is: another one for each Java and each set of jars."""
    java, jars = find_java(), (*sorted((spark_home() / "jars").glob("*.jar")), *spark_jars())
    told = [
        str(java.home),
        *(f"{jar} {jar.stat().st_size} {int(jar.stat().st_mtime)}" for jar in jars),
    ]
    return (
        cache_directory()
        / "classes"
        / f"{sha256(os.fsencode(os.linesep.join(told))).hexdigest()[:16]}.jsa"
    )


def _remove_others(archive: Path) -> None:
    """Of files for jars as they were before, 200 MB each, the last two stay."""
    found = sorted(
        archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True
    )
    for each in found[2:]:
        each.unlink(missing_ok=True)

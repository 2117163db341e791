"""Delta readers other than Spark read the tables as docs/guides/tables.md describes, in an environment
without kstorm."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.conftest import Job
from tests.pipeline.sink import MINUTE, NOON

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "guides" / "tables.md"
NOTEBOOK = ROOT / "examples" / "wordcount" / "tables.ipynb"
READERS = ["deltalake==1.6.6", "polars==2.1.0", "duckdb==2.0.0", "pyarrow==26.0.1"]

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with only the readers."""
    place = tmp_path_factory.mktemp("readers")
    subprocess.run([sys.executable, "-m", "venv", place], check=True)
    subprocess.run(
        [place / "bin" / "pip", "install", "--quiet", *READERS, "matplotlib"], check=True
    )
    return place / "bin" / "python"


@pytest.fixture
def place(job: Job) -> Path:
    """The folder of filled tables."""
    for number in range(3):
        job.sink.sentence(number, "the cat the dog", at=NOON + number * MINUTE)
        job.run()
    Path(job.settings.tables).joinpath("tables").symlink_to(job.settings.tables)
    return Path(job.settings.tables)


def said(python: Path, place: Path, program: str) -> str:
    """Return the output of a program that runs next to the tables."""
    done = subprocess.run(
        [python, "-c", program], cwd=place, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    return done.stdout


def test_examples_of_the_page_run(python: Path, place: Path) -> None:
    """Each on its own, in the page's order."""
    polars, by_minute, fresh, history = re.findall(r"(?ms)^```python\n(.*?)^```$", PAGE.read_text())
    assert re.search(r"the +┆ 6 .*(cat|dog) +┆ 3 ", said(python, place, polars).replace("\n", " "))
    assert len(re.findall(r" 4 │$", said(python, place, by_minute), re.MULTILINE)) == 3
    assert (
        said(python, place, f"{fresh}\nprint(seen, len(fresh), fresh['occurrence'].n_unique())")
        == "2 12 12\n"
    )
    assert said(
        python, place, f"{history}\nprint(sorted(before['occurrences'].to_pylist()))"
    ).endswith("\n[2, 2, 4]\n")


def test_versions_match_the_page() -> None:
    for name, version in (each.split("==") for each in READERS):
        assert re.search(rf"(?i){name} {re.escape(version)}", PAGE.read_text()), name


def test_notebook_runs(python: Path, place: Path) -> None:
    """Its cells run in order, and their outputs are right."""
    found = json.loads(NOTEBOOK.read_text())["cells"]
    cells = ["".join(cell["source"]) for cell in found if cell["cell_type"] == "code"]
    shown = [re.sub(r"(?ms)^(?=[\w.]+\(.*\Z)", "shown = ", cell) for cell in cells]
    setup, far, words, minutes, quarantine = shown
    checks = [
        "import matplotlib; matplotlib.use('agg')",
        *(setup, far, "assert shown.row(0)[:2] == (12, 2), shown"),
        *(words, "assert shown.rows() == [('the', 6), ('cat', 3), ('dog', 3)], shown"),
        *(minutes, "assert [row[1] for row in minutes.rows()] == [4, 4, 4], minutes"),
        *(quarantine, "assert shown.is_empty(), shown"),
    ]
    said(python, place, "\n".join(checks))

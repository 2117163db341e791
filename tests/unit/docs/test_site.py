"""The site: generated pages are those of the code, links lead to its pages, and it builds strictly."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from kstorm.errors import LocalError
from kstorm.topology import Config
from tools.docs import __main__ as docs
from tools.docs.reference import REFERENCE, ROOT, generated, outdated
from tools.docs.site_text import OUTSIDE, for_site, relinked
from tools.docs.tables import cell, field_texts


def test_generated_pages_are_those_of_the_code() -> None:
    names = [str(file.relative_to(ROOT)) for file in outdated()]
    assert names == [], "run `./run docs write`"


def test_a_build_refuses_an_outdated_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "outdated", lambda: [ROOT / "docs" / "reference" / "cli.md"])
    with pytest.raises(LocalError, match=r"^docs/reference/cli\.md differ from the code: run"):
        docs.check()


def test_every_setting_and_command_has_a_row() -> None:
    pages = generated()
    config, commands = pages[REFERENCE / "config.md"], pages[REFERENCE / "cli.md"]
    names = [name for name in Config.__dataclass_fields__ if name != "own"]
    assert len(names) > 20
    assert re.findall(r"(?m)^\| `(topology_\w+)` \|", config) == names
    assert {"kstorm new", "kstorm dlq replay", "kstorm offsets reset"} <= set(
        re.findall(r"(?m)^#+ (kstorm .*)$", commands)
    )
    assert "| `--rate` N | Replay at most N per second. Default: no limit. |" in commands


def test_the_text_of_a_field_is_the_string_below_it() -> None:
    kind, default, text = field_texts(Config)["topology_debug"]
    assert (kind, default) == ("bool", "False")
    assert text.startswith("Log every emit with its values.")


def test_a_cell_is_one_line() -> None:
    assert cell("a|b\n  c") == "a\\|b c"


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("[a](../guides/kafka.md#offsets)", "[a](../guides/kafka.md#offsets)"),
        ("[a](../../CHANGELOG.md)", "[a](../development/changelog.md)"),
        ("[a](../../helm/kstorm/README.md#values)", "[a](../reference/helm.md#values)"),
        ("[`a.py`](../../examples/a.py)", "`a.py`"),
        ("![a](../ui/why.png)", "![a](../ui/why.png)"),
        ("[a](https://delta.io) [b](#here)", "[a](https://delta.io) [b](#here)"),
        ("```md\n[a](../../LICENSE)\n```", "```md\n[a](../../LICENSE)\n```"),
    ],
)
def test_links_lead_to_pages_of_the_site(link: str, target: str) -> None:
    assert relinked(link, "concepts/guarantees.md") == target


def test_a_pipe_in_the_code_of_a_cell_is_shown_without_its_backslash() -> None:
    row = "| `MODULE:ATTR\\|FILE` | `a` or `b`, x \\| y |"
    shown = "| <code>MODULE:ATTR&#124;FILE</code> | `a` or `b`, x \\| y |"
    assert for_site(row, "reference/cli.md") == shown


def test_a_page_from_outside_links_to_the_site() -> None:
    page = OUTSIDE["CONTRIBUTING.md"]
    assert relinked("[a](docs/development/changing.md)", page) == "[a](changing.md)"


@pytest.mark.slow
def test_the_site_builds_strictly(tmp_path: Path) -> None:
    """A dead link, a dead anchor or a page in no part ends the build."""
    pytest.importorskip("mkdocs", reason="`./run docs` installs it")
    command = [sys.executable, "-m", "tools.docs", "build", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    page = (tmp_path / "site" / "reference" / "api" / "kstorm.topology.html").read_text()
    assert 'id="kstorm.topology.TopologyBuilder.set_bolt"' in page

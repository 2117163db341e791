"""The generated pages of docs/reference, and whether they are those of the code."""

from pathlib import Path
from typing import Final

from tools.docs.api import api_pages
from tools.docs.chart import chart_page
from tools.docs.commands import commands_page
from tools.docs.settings import config_page, settings_page

ROOT: Final = Path(__file__).resolve().parents[2]
REFERENCE: Final = ROOT / "docs" / "reference"


def generated() -> dict[Path, str]:
    """Return the text of each generated page, by its file."""
    pages = {
        "cli.md": commands_page(),
        "config.md": config_page(),
        "settings.md": settings_page(),
        "chart.md": chart_page(),
    }
    return {REFERENCE / name: text for name, text in pages.items()} | {
        REFERENCE / "api" / name: text for name, text in api_pages().items()
    }


def outdated() -> list[Path]:
    """Return the pages that differ from the code, and those of modules that are gone."""
    pages = generated()
    wrong = [
        file
        for file, text in pages.items()
        if not file.exists() or file.read_text(encoding="utf-8") != text
    ]
    return wrong + [file for file in (REFERENCE / "api").glob("*.md") if file not in pages]


def write() -> list[Path]:
    """Write the pages that are not up to date. Return them."""
    pages = generated()
    wrong = outdated()
    for file in wrong:
        if file in pages:
            file.parent.mkdir(exist_ok=True)
            file.write_text(pages[file], encoding="utf-8")
        else:
            file.unlink()
    return wrong

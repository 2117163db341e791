"""MkDocs calls these functions while it builds the site."""

from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs.site_text import OUTSIDE, for_site

ROOT: Final = Path(__file__).resolve().parents[2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    for source, page in OUTSIDE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Give the site the text that it needs, and show pages for users first in a search."""
    if page.file.src_uri.startswith("development/"):
        page.meta["search"] = {"boost": 0.2}
    return for_site(markdown, page.file.src_uri)

"""The text of a page on the site, from that in the repository.

The pages link to files outside docs/ as the repository has them. On the site, some of these files
are pages too. A link to any other file becomes its text, because a reader of the site has no
repository.
"""

import html
import posixpath
import re
from typing import Final

OUTSIDE: Final = {
    "CHANGELOG.md": "development/changelog.md",
    "CONTRIBUTING.md": "development/contributing.md",
    "SECURITY.md": "development/security.md",
    "helm/kstorm/README.md": "reference/helm.md",
}
"""The pages of the site that are not in docs/, by their file in the repository."""
_SOURCES: Final = {page: file for file, page in OUTSIDE.items()}
_LINK: Final = re.compile(r"(!?\[)((?:[^\]\[]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_ESCAPED: Final = "\\|"
# In a table GitHub takes the backslash away, and MkDocs shows it.
_CODE_WITH_PIPE: Final = re.compile(r"`([^`\n]*\\\|[^`\n]*)`")
_FENCE: Final = re.compile(r"(?ms)^```.*?^```$")


def for_site(markdown: str, page: str) -> str:
    """Return the text of a page as the site needs it."""
    return _CODE_WITH_PIPE.sub(
        lambda found: (
            f"<code>{html.escape(found[1].replace(_ESCAPED, '|')).replace('|', '&#124;')}</code>"
        ),
        relinked(markdown, page),
    )


def relinked(markdown: str, page: str) -> str:
    """Return a page's text with the links of the site, outside blocks of code."""
    source = _SOURCES.get(page, f"docs/{page}")
    parts = []
    end = 0
    for block in _FENCE.finditer(markdown):
        parts += [_in_prose(markdown[end : block.start()], source, page), block[0]]
        end = block.end()
    return "".join([*parts, _in_prose(markdown[end:], source, page)])


def _in_prose(text: str, source: str, page: str) -> str:
    def target(found: re.Match[str]) -> str:
        opening, words, link = found.groups()
        path, mark, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link) or not path:
            return found[0]
        file = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        goal = file.removeprefix("docs/") if file.startswith("docs/") else OUTSIDE.get(file)
        if goal is None:
            return words
        relative = posixpath.relpath(goal, posixpath.dirname(page) or ".")
        return f"{opening}{words}]({relative}{mark}{anchor})"

    return _LINK.sub(target, text)

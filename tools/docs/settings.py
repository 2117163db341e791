"""Pages of settings: those of a topology, and those of a service."""

import dataclasses
import re

from kstorm.runtime.base.settings import Settings
from kstorm.topology import Config
from tools.docs.tables import code, field_texts, page, table

_PAGE = re.compile(r"\bdocs/([\w/-]+\.md)")


def config_page() -> str:
    """Return the page of a topology's settings."""
    texts = field_texts(Config)
    rows = [
        (code(name), code(texts[name][0]), code(_shown(value)), _linked(texts[name][2]))
        for name, value in ((each.name, each.default) for each in dataclasses.fields(Config))
        if name != "own"
    ]
    return page(
        "Settings of a topology",
        "These are the fields of `kstorm.topology.Config`. They have Storm's names in Python\n"
        "spelling. A component may override some of them with `add_configurations`. `own` holds\n"
        "settings of your own ([public modules](public.md)).",
        table(["setting", "type", "default", "effect"], rows),
    )


def settings_page() -> str:
    """Return the page of a service's settings."""
    texts = field_texts(Settings)
    rows = [
        (code(f"KSTORM_{name.upper()}"), code(kind), code(_plain(default)), _linked(text))
        for name, (kind, default, text) in texts.items()
    ]
    return page(
        "Settings of a service",
        "A process of a topology reads these variables of its environment. The chart and\n"
        "`kstorm dev` set them for you ([run the services yourself](../guides/services.md)).",
        table(["variable", "type", "default", "effect"], rows),
    )


def _shown(value: object) -> str:
    return f"{value:,}".replace(",", "_") if type(value) is int and value >= 10_000 else repr(value)


def _plain(default: str) -> str:
    return default.removeprefix("Path(").removesuffix(")") if "Path(" in default else default


def _linked(text: str) -> str:
    """Turn the name of a page into a link to it."""
    return _PAGE.sub(
        lambda found: f"[{found[1].rpartition('/')[2].removesuffix('.md')}](../{found[1]})", text
    )

"""Page of one message: the trees of its attempts, and why it is unfinished. It is updated until the
message is finished."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from kstorm.errors import ConfigError
from kstorm.introspection.outline import Outline
from kstorm.operations.letters.reading import now_ms
from kstorm.operations.traces.topology_traces import parse_message
from kstorm.operations.trees.drawing import headline
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_export import to_json
from kstorm_ui import page_formatting
from kstorm_ui.pages.why import topics_of
from kstorm_ui.query_cache import ABSENT, KEPT_SECS, QueryProblem
from kstorm_ui.site import API, Site, json
from kstorm_ui.sources.messages import MessageAnswer, message_of, message_of_root
from kstorm_ui.sources.topic_records import ListedRecord, records_of, settings_for
from kstorm_ui.stream import growing
from kstorm_ui.topology_state import TopologyState
from kstorm_ui.tree_rows import BAR, shown_tree

FOLLOWED_SECS: Final = 600.0
"""Longest time for which a page is updated while its message is unfinished."""
_FRESH_SECS: Final = 1.0
_PATH: Final = "/t/{topology}/m/{topic}/{partition}/{offset}"


def routes(site: Site) -> list[Route]:
    """Return a page, the stream that updates it, its JSON with all trees, and a redirect to the
    page from a root.

    `?root=HEX` shows the tree of an attempt other than the newest.
    """

    async def root(request: Request) -> Response:
        state, root = site.memory(request).state, request.path_params["root"]
        found, problem = await _message_of(site, state, root)
        if found is None:
            return site.page(
                "message.html", problem.status, state=state, asked=root, problem=problem
            )
        page = page_formatting.path("t", state.name, "m", *found)
        return RedirectResponse(f"{page}?{urlencode({'root': root})}", 303)

    async def message(request: Request) -> Response:
        state, asked = site.memory(request).state, _coordinates(request)
        found, problem = await _answer(site, state, asked)
        if found is None or state.outline is None:
            return site.page(
                "message.html", problem.status, state=state, asked=asked, problem=problem
            )
        root = request.query_params.get("root", "")
        values = _values(site, state.outline, found, root)
        values["record"] = await _record(site, state, asked)
        stream = f"{page_formatting.path('t', state.name, 'm', *asked.split('/'), 'stream')}?{urlencode({'root': root})}"
        return site.page(
            "message.html", state=state, asked=asked, problem="", stream=stream, **values
        )

    async def message_stream(request: Request) -> Response:
        following = _Following(site, site.memory(request).state, request)
        return growing(site.collector, following.look, FOLLOWED_SECS)

    async def message_json(request: Request) -> Response:
        found, problem = await _answer(site, site.memory(request).state, _coordinates(request))
        if found is None:
            return json({"error": str(problem)}, problem.status)
        trees = [to_json(tree, site.show_values) for tree in found.trees]
        return json(
            {"verdict": found.verdict, "trees": trees, "all_read": found.verdict is not None}
        )

    return [
        Route("/t/{topology}/roots/{root}", root),
        Route(_PATH, message),
        Route(f"{_PATH}/stream", message_stream),
        Route(f"{API}{_PATH}", message_json),
    ]


class _Following:
    """One viewer that polls a message. Viewers of the same message share the queries."""

    def __init__(self, site: Site, state: TopologyState, request: Request) -> None:
        self._site, self._state = site, state
        self._asked, self._root = _coordinates(request), request.query_params.get("root", "")
        self._found = MessageAnswer([], None)

    async def look(self, is_last: bool) -> tuple[str, bool]:
        """Implements `kstorm_ui.stream.Growth`. While the servers do not respond, the page shows
        the last answer below the problem."""
        found, problem = await _answer(self._site, self._state, self._asked, _FRESH_SECS)
        self._found = found or self._found
        values = _values(
            self._site, self._state.outline or Outline(self._state.name), self._found, self._root
        )
        if is_last and values["follows"]:
            values["says"] = (
                f"This page has followed the message for {page_formatting.age(FOLLOWED_SECS)}: "
                "reload it to continue."
            )
        is_over = is_last or problem.status == ABSENT or not (problem or values["follows"])
        return self._site.render(
            "_message.html", state=self._state, problem=problem, **values
        ), is_over


def _coordinates(request: Request) -> str:
    return "/".join(request.path_params[name] for name in ("topic", "partition", "offset"))


async def _message_of(
    site: Site, state: TopologyState, root: str
) -> tuple[MessageId | None, QueryProblem]:
    """Return the message that a tree belongs to, and the problem if it is not known."""
    if not re.fullmatch("[0-9a-f]{16}", root):
        return None, QueryProblem(f"{root}: give a root as 16 hex digits", ABSENT)
    try:
        settings, outline = topics_of(state)
    except ConfigError as error:
        return None, QueryProblem(str(error))
    ask = partial(message_of_root, settings, outline, int(root, 16))
    return await site.read.answer(("root", state.name, root), ask)


async def _answer(
    site: Site, state: TopologyState, asked: str, kept: float = KEPT_SECS
) -> tuple[MessageAnswer | None, QueryProblem]:
    """Return the answer for a message, at most `kept` seconds old, and the problem."""
    try:
        wanted = parse_message(asked)
    except ConfigError as error:
        return None, QueryProblem(str(error), ABSENT)
    try:
        settings, outline = topics_of(state)
    except ConfigError as error:
        return None, QueryProblem(str(error))
    ask = partial(message_of, settings, outline, wanted, values=site.show_values)
    return await site.read.answer(("message", state.name, wanted), ask, kept)


def _values(site: Site, outline: Outline, found: MessageAnswer, root: str) -> dict[str, Any]:
    """Return the template's values."""
    tree = _chosen(found.trees, root)
    follows = found.verdict is not None and not found.verdict.is_final
    return {
        "found": found,
        "tree": None
        if tree is None
        else shown_tree(tree, outline, now_ms(), values=site.show_values),
        "others": [
            (f"{each.root:016x}", headline(each, outline))
            for each in reversed(found.trees)
            if each is not tree
        ],
        "bar": BAR,
        "letter": _letter_of(found),
        "follows": follows,
        "says": "This page follows the message until it is done."
        if follows
        else "This is final: the page is not updated any more.",
    }


async def _record(site: Site, state: TopologyState, asked: str) -> ListedRecord | None:
    """Return the record of a message, or None if Kafka does not have it any more."""
    topic, partition, offset = parse_message(asked)
    settings, outline = topics_of(state)
    ask = partial(
        records_of,
        settings_for(settings, outline, topic),
        topic,
        partition,
        offset,
        values=site.show_values,
        most=1,
    )
    found, _ = await site.queries.answer(("record", state.name, asked), ask)
    return next((each for each in found.records if each.offset == offset), None) if found else None


def _letter_of(found: MessageAnswer) -> int | None:
    """Return the number of the message's own dead letter, or None."""
    said = "" if found.verdict is None else found.verdict.said
    number = re.match("dead letter #([0-9]+)", said)
    return int(number[1]) if number else None


def _chosen(trees: Sequence[Tree], root: str) -> Tree | None:
    newest = trees[-1] if trees else None
    return next((tree for tree in trees if f"{tree.root:016x}" == root), newest)

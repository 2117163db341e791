"""One message: the trees of its attempts, and why it is not done."""

from collections.abc import Sequence
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.cli.tracing import parse_message
from kstorm.errors import ConfigError
from kstorm.inspect.drawing import headline
from kstorm.inspect.exporting import to_json
from kstorm.inspect.outline import Outline
from kstorm.inspect.tree import Tree
from kstorm_ui.pages.why import topics_of
from kstorm_ui.site import Site, json
from kstorm_ui.sources.messages import MessageAnswer, message_of
from kstorm_ui.state import TopologyState
from kstorm_ui.trees import BAR, shown_tree

_PATH: Final = "/t/{topology}/m/{topic}/{partition}/{offset}"


def routes(site: Site) -> list[Route]:
    """A page, on which `?root=HEX` shows the tree of another attempt than the newest; and the same as JSON, with all trees."""

    async def message(request: Request) -> Response:
        state, asked = site.memory(request).state, _coordinates(request)
        found, problem = await _answer(site, state, asked)
        if found is None or state.outline is None:
            return site.page("message.html", 404, state=state, asked=asked, problem=problem)
        return _page(site, state, state.outline, asked, found, request.query_params.get("root"))

    async def message_json(request: Request) -> Response:
        state = site.memory(request).state
        found, problem = await _answer(site, state, _coordinates(request))
        if found is None:
            return json({"error": problem}, 404)
        trees = [to_json(tree, site.show_values) for tree in found.trees]
        return json({"verdict": found.verdict, "trees": trees, "all_read": found.verdict is not None})

    return [Route(_PATH, message), Route(f"/api/v1{_PATH}", message_json)]


def _coordinates(request: Request) -> str:
    return "/".join(request.path_params[name] for name in ("topic", "partition", "offset"))


async def _answer(site: Site, state: TopologyState, asked: str) -> tuple[MessageAnswer | None, str]:
    """What is known of a message, or why nothing is."""
    try:
        wanted = parse_message(asked)
        settings, outline = topics_of(state)
    except ConfigError as error:
        return None, str(error)
    ask = partial(message_of, settings, outline, wanted, values=site.show_values)
    return await site.read.answer(("message", state.name, wanted), ask)


def _page(
    site: Site, state: TopologyState, outline: Outline, asked: str, found: MessageAnswer, root: str | None
) -> Response:
    tree = _chosen(found.trees, root)
    shown = None if tree is None else shown_tree(tree, outline, values=site.show_values)
    others = [(f"{each.root:016x}", headline(each, outline)) for each in reversed(found.trees) if each is not tree]
    return site.page(
        "message.html", state=state, asked=asked, problem="", found=found, tree=shown, others=others, bar=BAR
    )


def _chosen(trees: Sequence[Tree], root: str | None) -> Tree | None:
    newest = trees[-1] if trees else None
    return next((tree for tree in trees if f"{tree.root:016x}" == root), newest)

"""One message: the trees of its attempts, and why it is not done."""

from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kstorm.cli.tracing import parse_message
from kstorm.errors import ConfigError
from kstorm.inspect.tree import Tree
from kstorm_ui.pages.why import topics_of
from kstorm_ui.site import Site
from kstorm_ui.sources.messages import MOST_BYTES, MOST_SECS, MessageAnswer, message_of
from kstorm_ui.trees import BAR, shown_tree


def routes(site: Site) -> list[Route]:
    """One page; `?root=HEX` shows the tree of another attempt than the newest."""

    async def message(request: Request) -> Response:
        state, given = site.memory(request).state, request.path_params
        text = f"{given['topic']}/{given['partition']}/{given['offset']}"
        values: dict[str, Any] = {"state": state, "asked": text, "bar": BAR, "limits": (MOST_BYTES, MOST_SECS)}
        nothing: dict[str, Any] = {"found": None, "tree": None, "others": ()}
        try:
            wanted = parse_message(text)
            settings, outline = topics_of(state)
        except ConfigError as error:
            return site.page("message.html", 404, **values, **nothing, problem=str(error))
        ask = partial(message_of, settings, outline, wanted, values=site.show_values)
        found, problem = await site.asked.answer(("message", state.name, *wanted), ask)
        if found is None:
            return site.page("message.html", 404, **values, **nothing, problem=problem)
        tree = _chosen(found, request.query_params.get("root"))
        shown = None if tree is None else shown_tree(tree, outline, values=site.show_values)
        others = [shown_tree(each, outline, values=False) for each in reversed(found.trees) if each is not tree]
        return site.page("message.html", **values, found=found, tree=shown, others=others, problem="")

    return [Route("/t/{topology}/m/{topic}/{partition}/{offset}", message)]


def _chosen(found: MessageAnswer, root: str | None) -> Tree | None:
    return next((tree for tree in found.trees if f"{tree.root:016x}" == root), found.newest)

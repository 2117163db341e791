"""What a test waits for in a browser."""

from playwright.sync_api import Page


def arrives(page: Page, pieces: int) -> None:
    """Waits until so many pieces have taken their place."""
    page.evaluate(
        "pieces => new Promise(done => document.addEventListener('htmx:sse:after:message',"
        " event => { if (!event.detail.message.event && --pieces <= 0) done(); }))",
        pieces,
    )

"""A fake web of documents for flows, which records the requests; and the driver of a flow."""

from collections.abc import Callable
from typing import Any

import msgspec

from dovetail.auth.http import Flow, OAuthRequest, OAuthResponse, T


def drive(flow: Flow[T], send: Callable[[OAuthRequest], OAuthResponse]) -> T:
    """Run a flow to its end with responses from `send`."""
    try:
        request = next(flow)
        while True:
            try:
                response = send(request)
            except Exception as problem:
                request = flow.throw(problem)
            else:
                request = flow.send(response)
    except StopIteration as end:
        return end.value


class Web:
    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages = pages
        self.requests: list[OAuthRequest] = []

    def send(self, request: OAuthRequest) -> OAuthResponse:
        self.requests.append(request)
        page = self.pages.get(request.url, 404)
        if callable(page):
            page = page(request)
        if isinstance(page, OAuthResponse):
            return page
        if isinstance(page, int):
            return OAuthResponse(page, {}, b"<html>Not here</html>")
        return OAuthResponse(200, {}, page if isinstance(page, bytes) else msgspec.json.encode(page))

    def run(self, flow: Flow[T]) -> T:
        return drive(flow, self.send)

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.requests]

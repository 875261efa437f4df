"""A web of documents for flows, which remembers what it was asked for."""

from typing import Any

import msgspec

from dovetail.auth.http import Flow, Request, Response, T, drive


class Web:
    def __init__(self, pages: dict[str, Any]) -> None:
        self.pages = pages
        self.asked: list[Request] = []

    def send(self, request: Request) -> Response:
        self.asked.append(request)
        page = self.pages.get(request.url, 404)
        if callable(page):
            page = page(request)
        if isinstance(page, Response):
            return page
        if isinstance(page, int):
            return Response(page, {}, b"<html>Not here</html>")
        return Response(200, {}, page if isinstance(page, bytes) else msgspec.json.encode(page))

    def run(self, flow: Flow[T]) -> T:
        return drive(flow, self.send)

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.asked]

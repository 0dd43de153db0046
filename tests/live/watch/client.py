"""HTTP client of an app, without a network."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
from starlette.applications import Starlette

HERE = "http://127.0.0.1:8321"


class Client:
    """A browser of sorts: it keeps cookies, and goes nowhere by itself."""

    def __init__(self, app: Starlette) -> None:
        self.app = app
        self.cookies = httpx.Cookies()

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app)
            client = httpx.AsyncClient(transport=transport, base_url=HERE, cookies=self.cookies)
            async with client:
                answer = await client.request(method, path, **given)
                self.cookies = client.cookies
                return answer

        return asyncio.run(asked())

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)

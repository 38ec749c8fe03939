"""The yardstick: the shortest proxy that aiohttp allows, ``python -m bench.aiohttp_proxy UPSTREAM``.

Its low-level server in front, its client session behind, pieces written as they come; no checks, no
headers policy, no error paths.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, ClientTimeout, TCPConnector, web
from yarl import URL

from bench.process import serve_until_input_ends

_DROPPED = frozenset({"connection", "host", "keep-alive", "transfer-encoding"})


async def main(upstream: str) -> None:
    session = ClientSession(
        connector=TCPConnector(limit=0), auto_decompress=False, timeout=ClientTimeout(total=None)
    )

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        fields = [(k, v) for k, v in request.headers.items() if k.lower() not in _DROPPED]
        url = URL(upstream + request.raw_path, encoded=True)
        async with session.request(
            request.method, url, headers=fields, data=await request.read()
        ) as answer:
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in _DROPPED:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response

    server = web.Server(handle, access_log=None)
    listening = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    await serve_until_input_ends(listening.sockets[0].getsockname()[1])
    await session.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))

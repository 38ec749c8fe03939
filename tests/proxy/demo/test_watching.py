"""The demo's page is where it is said to be, and nobody else's to see."""

from __future__ import annotations

import asyncio
import io
import socket
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from teeline.config.model import ListenAddress
from teeline.proxy.admin import AdminError
from teeline.proxy.demo.stage import stage
from teeline.proxy.demo.watching import TOKEN_FILE, admin_config

FREE = ListenAddress("127.0.0.1", 0)


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=20) as answer:
        data: bytes = answer.read()
        return data


def test_the_page_says_that_this_is_the_demo(tmp_path: Path) -> None:
    async def test() -> None:
        async with stage(FREE, tmp_path, io.StringIO(), admin=FREE) as up:
            facts = await asyncio.to_thread(_get, f"{up.page}api/facts")
            assert b"This is the demo" in facts
            assert b'"history":true' in facts
            status = await asyncio.to_thread(_get, up.page.replace("monitor/", "api/status"))
            assert b'"demo-relay"' in status
        with pytest.raises(urllib.error.URLError):
            await asyncio.to_thread(_get, up.page)

    asyncio.run(test())


def test_without_an_address_there_is_no_page(tmp_path: Path) -> None:
    async def test() -> None:
        async with stage(FREE, tmp_path, io.StringIO()) as up:
            assert up.page == ""

    asyncio.run(test())


def test_a_port_that_is_taken_is_another_one_unless_it_was_asked_for(tmp_path: Path) -> None:
    async def test() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            address = ListenAddress("127.0.0.1", port)
            folder = tmp_path / "one"
            async with stage(FREE, folder, io.StringIO(), admin=address, elsewhere=True) as up:
                assert f":{port}/" not in up.page
                assert await asyncio.to_thread(_get, f"{up.page}api/facts")
            with pytest.raises(AdminError, match="in use"):
                async with stage(FREE, tmp_path / "two", io.StringIO(), admin=address):
                    pytest.fail("nothing can be up here")

    asyncio.run(test())


def test_where_others_can_connect_a_token_of_this_run_is_demanded(tmp_path: Path) -> None:
    everywhere = ListenAddress("0.0.0.0", 0)
    first = admin_config(everywhere, tmp_path / "log")
    file = tmp_path / "log" / TOKEN_FILE
    assert first.token_file == file
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    token = file.read_text(encoding="ascii")
    admin_config(everywhere, tmp_path / "log")
    assert file.read_text(encoding="ascii") != token
    assert admin_config(FREE, tmp_path).token_file is None

    async def test() -> None:
        async with stage(FREE, tmp_path / "demo", io.StringIO(), admin=everywhere) as up:
            assert up.page.startswith("http://127.0.0.1:")
            assert "/monitor/login?code=" in up.page
            page = up.page.partition("login")[0]
            with pytest.raises(urllib.error.HTTPError, match="401"):
                await asyncio.to_thread(_get, f"{page}api/facts")

    asyncio.run(test())

"""Addresses of a tap, in the forms that people write."""

from __future__ import annotations

import pytest

from teeline.proxy.nnrp.address import Address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9000", Address("127.0.0.1", 9000)),
        ("tcp://[::1]:9000", Address("::1", 9000)),
        ("ws://host:80/", Address("host", 80)),
        ("tls://host:443", Address("host", 443, tls=True)),
        ("nnrp://host:1", Address("host", 1)),
        ("nnrps://host:1", Address("host", 1, tls=True)),
        ("unix:/run/nnrp", Address(path="/run/nnrp")),
        ("unix:///run/nnrp", Address(path="/run/nnrp")),
    ],
)
def test_an_address_is_read_and_written(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize("text", ["", "host", "unix:", "http://host:1", "quic://host:1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Address.parse(text)

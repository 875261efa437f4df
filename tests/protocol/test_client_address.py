"""The address by which a client without a principal is counted."""

import pytest

from dovetail.protocol.client_address import TrustedProxies, client_key, counted_address
from dovetail.protocol.errors import LocalError

LOCAL = TrustedProxies.build()


class TestForwarded:
    @pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.9", "::1", ""])
    def test_a_proxy_on_this_machine_names_its_clients(self, peer: str):
        assert LOCAL.client_address(peer, b"203.0.113.7") == "203.0.113.7"

    def test_a_client_that_is_no_trusted_proxy_cannot_choose_its_address(self):
        assert LOCAL.client_address("198.51.100.1", b"203.0.113.7") == "198.51.100.1"

    def test_without_the_header_the_address_is_that_of_the_connection(self):
        assert LOCAL.client_address("127.0.0.2", None) == "127.0.0.2"

    def test_only_what_the_last_trusted_proxy_has_added_counts(self):
        proxies = TrustedProxies.build(["127.0.0.1", "10.0.0.0/8"])
        assert proxies.client_address("127.0.0.1", b"6.6.6.6, 203.0.113.7, 10.1.2.3") == "203.0.113.7"
        assert LOCAL.client_address("127.0.0.1", b"6.6.6.6, 203.0.113.7") == "203.0.113.7"

    @pytest.mark.parametrize("value", [b"", b"unknown", b"6.6.6.6, x", b"6.6.6.6,"])
    def test_what_is_no_address_counts_as_the_proxy(self, value: bytes):
        assert LOCAL.client_address("127.0.0.1", value) == "127.0.0.1"

    @pytest.mark.parametrize(
        ("value", "address"),
        [
            (b"203.0.113.7:4711", "203.0.113.7"),
            (b"[2001:db8::1]:4711", "2001:db8::1"),
            (b"2001:DB8:0::1", "2001:db8::1"),
            (b"::ffff:203.0.113.7", "203.0.113.7"),
        ],
    )
    def test_forms_of_addresses(self, value: bytes, address: str):
        assert LOCAL.client_address("127.0.0.1", value) == address

    def test_nobody_is_trusted_if_no_proxy_is_named(self):
        nobody = TrustedProxies.build([])
        for peer in ("127.0.0.1", "::1", ""):
            assert nobody.client_address(peer, b"203.0.113.7") == peer

    @pytest.mark.parametrize("entries", ["127.0.0.1", ["proxy.example.com"], ["10.0.0.0/40"]])
    def test_an_entry_that_is_no_address_is_an_error(self, entries: list[str]):
        with pytest.raises(LocalError):
            TrustedProxies.build(entries)


class TestKey:
    def test_addresses_of_one_ipv6_network_are_one_client(self):
        assert counted_address("2001:db8:1:2::1") == counted_address("2001:db8:1:2:ffff::9") == "2001:db8:1:2::/64"
        assert counted_address("2001:db8:1:3::1") != counted_address("2001:db8:1:2::1")

    def test_an_ipv4_address_written_as_ipv6_is_the_same_client(self):
        assert counted_address("::ffff:192.0.2.1") == counted_address("192.0.2.1") == "192.0.2.1"

    def test_a_principal_never_equals_an_address(self):
        assert client_key("192.0.2.1", "192.0.2.1") != client_key(None, "192.0.2.1")
        assert client_key("ann", "192.0.2.1") == client_key("ann", "192.0.2.2") == "ann"

    def test_clients_without_an_address_are_one(self):
        assert client_key(None, "") == client_key(None, "")

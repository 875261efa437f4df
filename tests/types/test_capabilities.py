"""Who a peer is and what it can do."""

from dovetail.types.capabilities import (
    ClientCapabilities,
    ElicitationCapability,
    Icon,
    Implementation,
    ListCapability,
    ServerCapabilities,
)
from dovetail.types.serialization import dump, load


def test_declared_and_undeclared_differ() -> None:
    declared = load(ServerCapabilities, {"tools": {}, "logging": {}})
    assert declared.tools == ListCapability()
    assert declared.logging == {}
    assert declared.prompts is None
    assert dump(declared) == {"tools": {}, "logging": {}}


def test_capabilities_nobody_knows_are_kept() -> None:
    plain = {"extensions": {"io.example/a": {}}, "experimental": {"b": {"c": 1}}, "teleport": {"far": True}}
    for kind in (ClientCapabilities, ServerCapabilities):
        assert load(kind, plain).extra == {"teleport": {"far": True}}
        assert dump(load(kind, plain)) == plain


def test_elicitation_declares_forms_and_urls() -> None:
    assert load(ClientCapabilities, {"elicitation": {"url": {}}}).elicitation == ElicitationCapability(url={})


def test_capabilities_have_their_wire_names() -> None:
    value = Implementation("n", "1", website_url="https://a", icons=[Icon("https://i", "image/png", ["48x48"])])
    icon = {"src": "https://i", "mimeType": "image/png", "sizes": ["48x48"]}
    assert dump(value) == {"name": "n", "version": "1", "websiteUrl": "https://a", "icons": [icon]}

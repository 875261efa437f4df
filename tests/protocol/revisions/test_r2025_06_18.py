"""What 2025-06-18 changed."""

import pytest

from dovetail.protocol.errors import ProtocolError
from dovetail.protocol.revisions.r2025_03_26 import REVISION as PREVIOUS
from dovetail.protocol.revisions.r2025_06_18 import REVISION
from dovetail.types.capabilities import Icon
from dovetail.types.client_features import ElicitParams
from dovetail.types.content import Text
from dovetail.types.resources import Resource


def test_flags() -> None:
    assert not REVISION.batching
    assert REVISION.version_header and not PREVIOUS.version_header
    assert (REVISION.structured, REVISION.bad_arguments, REVISION.null_id) == ("object", "error", True)
    assert REVISION.content_types - PREVIOUS.content_types == {"resource_link"}


def test_this_revision_adds_elicitation() -> None:
    assert REVISION.methods.keys() - PREVIOUS.methods.keys() == {"elicitation/create"}
    params = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    assert REVISION.accept("server", "elicitation/create", params) == ElicitParams("?", params["requestedSchema"])
    with pytest.raises(ProtocolError):
        PREVIOUS.accept("server", "elicitation/create", params)
    assert REVISION.emit(ElicitParams("?", {}, "form")) == {"message": "?", "requestedSchema": {}}


def test_meta_and_titles_came_and_icons_did_not() -> None:
    assert REVISION.emit(Text("a", meta={"k": 1})) == {"type": "text", "text": "a", "_meta": {"k": 1}}
    assert PREVIOUS.emit(Text("a", meta={"k": 1})) == {"type": "text", "text": "a"}
    resource = Resource("a:b", "n", "T", icons=[Icon("https://i")])
    assert REVISION.emit(resource) == {"uri": "a:b", "name": "n", "title": "T"}

"""Terms are a value: what a request is served under."""

import pytest

from dovetail.protocol.revisions import NEWEST
from dovetail.protocol.terms import Terms
from dovetail.types.capabilities import ClientCapabilities, Implementation


def test_terms_name_the_revision_the_client_and_what_it_can_do():
    terms = Terms(NEWEST, Implementation("c", "1"), ClientCapabilities(), "info")
    assert terms.revision is NEWEST
    assert terms.client == Implementation("c", "1")
    assert terms.log_level == "info"


def test_a_client_may_stay_anonymous_and_want_no_log():
    terms = Terms(NEWEST, None, ClientCapabilities())
    assert (terms.client, terms.log_level) == (None, None)


def test_terms_cannot_be_changed():
    with pytest.raises(AttributeError):
        Terms(NEWEST, None, ClientCapabilities()).client = None  # pyright: ignore[reportAttributeAccessIssue]

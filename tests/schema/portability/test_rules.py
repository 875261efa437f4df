"""The rules as data: complete, and named once."""

import re

from dovetail.schema.portability.rules import DEFAULT_PROFILES, PROFILES, RULES, TOOL_LIMITS


def test_every_rule_says_who_refuses_what_and_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.profiles and set(rule.profiles) <= set(PROFILES), rule.id
        assert rule.problem and rule.remedy and rule.source, rule.id
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", rule.checked), rule.id
        assert "|" not in rule.problem + rule.remedy + rule.source, f"{rule.id} is a row of a table"


def test_strict_mode_is_checked_on_request_only() -> None:
    assert set(PROFILES) - set(DEFAULT_PROFILES) == {"openai-strict"}
    assert set(TOOL_LIMITS) <= set(PROFILES)

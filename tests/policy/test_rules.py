"""Rules and policies: which of them says what, and that nothing makes them looser than they look."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.policy.actions import Action, ActionKind, Verdict
from dovetail.policy.conditions import Condition, Equals, Like, OneOf, Outside, Under
from dovetail.policy.rules import HINTS, Policy, Rule, hints_of, stricter
from dovetail.protocol.errors import LocalError
from dovetail.types.tools import ToolAnnotations

KINDS: tuple[ActionKind, ...] = (
    *("launch", "tool", "prompt", "resource", "sampling", "sampling-answer"),
    *("context", "elicitation", "roots", "definition"),
)
VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")


def call(tool: str = "read", server: str = "files", **more: Any) -> Action:
    return Action(kind="tool", server=server, name=tool, **more)


def verdict(action: Action, *rules: Rule) -> str:
    return Policy(rules).decide(action).verdict


class TestDefaults:
    @pytest.mark.parametrize(
        ("kind", "expected"),
        [(kind, "allow" if kind in ("prompt", "resource") else "ask") for kind in KINDS],
    )
    def test_each_kind_has_its_default(self, kind: ActionKind, expected: str) -> None:
        assert verdict(Action(kind=kind, server="x")) == expected

    def test_only_a_trusted_server_is_believed_that_a_tool_reads_only(self) -> None:
        says = ToolAnnotations(read_only_hint=True)
        assert verdict(call(annotations=says)) == "ask"
        assert verdict(call(annotations=says, trusted=True)) == "allow"
        assert verdict(call(trusted=True)) == "ask"


class TestWhatARuleIsAbout:
    def test_servers_and_tools_by_pattern(self) -> None:
        rule = Rule("allow", server="f*", tool="read_*")
        assert verdict(call("read_file"), rule) == "allow"
        assert verdict(call("write_file"), rule) == "ask"
        assert verdict(call("read_file", "git"), rule) == "ask"

    def test_who_denies_a_server_denies_all_of_it_and_who_allows_it_its_tools(self) -> None:
        for kind in KINDS:
            action = Action(kind=kind, server="x", name="y")
            assert verdict(action, Rule("deny", server="x")) == "deny"
        assert verdict(call(server="x"), Rule("allow", server="x")) == "allow"
        for kind in ("launch", "sampling", "roots", "context", "definition"):
            assert verdict(Action(kind=kind, server="x"), Rule("allow", server="x")) == "ask"
        assert verdict(Action(kind="launch", server="x"), Rule("allow", server="x", kind="launch")) == "allow"
        assert verdict(Action(kind="roots", server="x"), Rule("allow", server="x", kind="*")) == "allow"

    def test_resources_and_prompts_by_name(self) -> None:
        rule = Rule("deny", kind="resource", name="secret://*")
        assert verdict(Action(kind="resource", server="x", name="secret://a"), rule) == "deny"
        assert verdict(Action(kind="resource", server="x", name="public://a"), rule) == "allow"
        assert verdict(call("secret://a"), rule) == "ask"

    def test_arguments(self) -> None:
        rule = Rule("allow", tool="read", arguments={"path": Under("/home/me/project"), "/mode": Equals("r")})
        assert verdict(call(arguments={"path": "/home/me/project/x", "mode": "r"}), rule) == "allow"
        assert verdict(call(arguments={"path": "/home/me/project2", "mode": "r"}), rule) == "ask"
        assert verdict(call(arguments={"path": "/home/me/project/x", "mode": "w"}), rule) == "ask"
        assert verdict(call(arguments={"path": "/home/me/project/x"}), rule) == "ask"

    def test_arguments_and_annotations_are_looked_at_in_each_call_of_a_tool(self) -> None:
        policy = Policy(
            [Rule("deny", tool="rm", arguments={"path": Under("/etc")}), Rule("allow", tool="rm", read_only=True)]
        )
        reads = ToolAnnotations(read_only_hint=True)
        calls = [
            Action(kind="tool", server="s", name="rm", arguments={"path": path}, annotations=said, trusted=True)
            for path in ("/tmp/a", "/etc/passwd", "/tmp/b")
            for said in (reads, None)
        ]
        assert [policy.decide(call).verdict for call in calls] == ["allow", "ask", "deny", "deny", "allow", "ask"]

    def test_one_bad_value_is_enough_to_deny(self) -> None:
        rule = Rule("deny", tool="*", arguments={"paths.*": Under("/etc")})
        assert verdict(call(arguments={"paths": ["/home/x", "/etc/passwd"]}), rule) == "deny"
        assert verdict(call(arguments={"paths": ["/home/x"]}), rule) == "ask"

    def test_definition_and_launch(self) -> None:
        rule = Rule("allow", tool="read", definition="d", launch="l")
        assert verdict(call(definition="d", launch="l"), rule) == "allow"
        assert verdict(call(definition="e", launch="l"), rule) == "ask"
        assert verdict(call(definition="d", launch="m"), rule) == "ask"
        assert verdict(call(), rule) == "ask"

    @pytest.mark.parametrize(
        "fields",
        [
            {"tool": "x", "kind": "prompt"},
            {"tool": "x", "name": "y"},
            {"kind": "sampling", "read_only": True},
            {"kind": "*", "arguments": {"a": Equals(1)}},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, fields: dict[str, Any]) -> None:
        with pytest.raises(LocalError):
            Rule("deny", **fields)


class TestOrder:
    def test_the_first_that_matches_says_it(self) -> None:
        assert verdict(call(), Rule("ask", tool="read"), Rule("allow", tool="*")) == "ask"
        assert verdict(call(), Rule("allow", tool="*"), Rule("ask", tool="read")) == "allow"

    def test_a_deny_wins_wherever_it_stands(self) -> None:
        assert verdict(call(), Rule("allow", tool="*"), Rule("deny", tool="read")) == "deny"

    def test_answers_come_first_but_not_before_a_deny(self) -> None:
        policy = Policy([Rule("ask", tool="*"), Rule("deny", tool="write")])
        yes = Rule("allow", tool="*", origin="answered for this session")
        assert policy.decide(call(), [yes]).verdict == "allow"
        assert policy.decide(call("write"), [yes]).verdict == "deny"

    def test_a_policy_does_not_change(self) -> None:
        policy = Policy([Rule("allow", tool="read")])
        other = Policy([Rule("deny", tool="read"), *policy.rules])
        assert (policy.decide(call()).verdict, other.decide(call()).verdict) == ("allow", "deny")
        with pytest.raises(AttributeError):
            policy.rules = ()  # pyright: ignore[reportAttributeAccessIssue]


def by(principal: str | None, *groups: str) -> Action:
    return call(principal=principal, groups=frozenset(groups))


class TestCallers:
    def test_principals_and_groups_by_pattern(self) -> None:
        assert verdict(by("ann"), Rule("allow", principal="an*")) == "allow"
        assert verdict(by("bob"), Rule("allow", principal="an*")) == "ask"
        assert verdict(by("bob"), Rule("allow", principal=("ann", "bob"))) == "allow"
        assert verdict(by("bob", "ops-eu", "staff"), Rule("allow", group="ops-*")) == "allow"
        assert verdict(by("bob", "staff"), Rule("allow", group=("ops", "admins"))) == "ask"

    def test_both_must_match(self) -> None:
        rule = Rule("allow", principal="ann", group="ops")
        assert [verdict(action, rule) for action in (by("ann", "ops"), by("ann"), by("bob", "ops"))] == [
            *("allow", "ask", "ask"),
        ]

    def test_nobody_is_no_principal_and_in_no_group(self) -> None:
        for rule in (Rule("allow", principal="*"), Rule("allow", group="*")):
            assert verdict(by(None), rule) == "ask"

    def test_who_is_not_in_a_group_is_denied_also_where_groups_are_not_known(self) -> None:
        rules = (Rule("deny", not_group=("ops", "admins")), Rule("allow", tool="*"))
        assert verdict(by("ann", "ops"), *rules) == "allow"
        for action in (by("bob", "staff"), by("cy"), by(None)):
            assert verdict(action, *rules) == "deny"

    def test_one_caller_does_not_get_what_was_remembered_for_another(self) -> None:
        policy = Policy([Rule("allow", principal="ann"), Rule("deny", group="guests")])
        for _ in range(2):
            said = [policy.decide(action).verdict for action in (by("ann"), by("bob"), by("ann", "guests"))]
            assert said == ["allow", "ask", "deny"]

    def test_a_rule_that_allows_names_who_may(self) -> None:
        with pytest.raises(LocalError, match="name the `group` that may"):
            Rule("allow", not_group="guests")

    def test_always_denied_is_what_no_arguments_change(self) -> None:
        policy = Policy([Rule("deny", tool="a", principal="bob"), Rule("deny", tool="b", arguments={"x": Equals(1)})])
        assert policy.always_denies(call("a", principal="bob"))
        assert not policy.always_denies(call("a", principal="ann"))
        assert not policy.always_denies(call("b", arguments={"x": 1}))


class TestAnnotations:
    @pytest.mark.parametrize("hint", HINTS)
    def test_a_trusted_server_is_believed(self, hint: str) -> None:
        for value in (True, False):
            # What a tool that reads only says of destruction does not count.
            says = ToolAnnotations(read_only_hint=False)
            setattr(says, f"{hint}_hint", value)
            rule = msgspec.structs.replace(Rule("allow", tool="*"), **{hint: value})
            assert verdict(call(annotations=says, trusted=True), rule) == "allow"
            assert verdict(call(annotations=says), rule) == "ask"

    def test_missing_annotations_mean_the_worse(self) -> None:
        assert hints_of(None) == {"read_only": False, "destructive": True, "idempotent": False, "open_world": True}
        assert hints_of(ToolAnnotations(read_only_hint=True))["destructive"] is False
        assert verdict(call(), Rule("deny", tool="*", destructive=True)) == "deny"

    def test_an_untrusted_server_cannot_talk_itself_out_of_a_rule(self) -> None:
        rule = Rule("deny", tool="*", destructive=True)
        says = ToolAnnotations(destructive_hint=False, read_only_hint=True)
        assert verdict(call(annotations=says), rule) == "deny"
        assert verdict(call(annotations=says, trusted=True), rule) == "allow"

    def test_an_untrusted_server_can_talk_itself_into_a_rule(self) -> None:
        rule = Rule("deny", tool="*", idempotent=True)
        assert verdict(call(), rule) == "ask"
        assert verdict(call(annotations=ToolAnnotations(idempotent_hint=True)), rule) == "deny"


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule("deny", server="evil"), "deny everything of evil (code)"),
        (
            Rule("allow", server="files", tool="read_*", arguments={"path": Under("~/project")}, origin="p.toml:3"),
            "allow tool read_* of files if path is under ~/project (p.toml:3)",
        ),
        (Rule("ask", tool="*", trusted=False), "ask about any tool of any untrusted server (code)"),
        (
            Rule("allow", tool="*", read_only=True, destructive=False),
            "allow any tool of any server if it is read-only and it is not destructive (code)",
        ),
        (Rule("ask", kind="sampling"), "ask about questions to a model by any server (code)"),
        (Rule("allow", server="git", kind="launch"), "allow the start of git (code)"),
        (
            Rule("deny", tool="x", arguments={"n": OneOf((1, 2)), "to": Like("*@evil"), "p": Outside("/a")}),
            'deny tool x of any server if n is one of 1, 2 and to is like "*@evil" and p is not under /a (code)',
        ),
        (Rule("deny", kind="resource", name="file:*"), "deny resource file:* of any server (code)"),
        (
            Rule("ask", server="git", principal=("ann", "bob"), not_group="ops"),
            "ask about any tool of git if the caller is ann or bob and the caller is not in the group ops (code)",
        ),
    ],
)
def test_a_rule_says_itself(rule: Rule, words: str) -> None:
    assert str(rule) == words


def test_a_decision_names_its_rule() -> None:
    decision = Policy([Rule("deny", server="evil", origin="policy.toml:7")]).decide(call(server="evil"))
    assert decision.rule == "deny everything of evil (policy.toml:7)"


maybe = st.none() | st.booleans()
names = st.sampled_from(["a", "ab", "b"])
patterns = st.sampled_from(["*", "a*", "b", "?"])
conditions: st.SearchStrategy[Condition] = st.sampled_from(
    [Equals(1), OneOf((1, "x")), Like("/a/*"), Under("/a"), Outside("/a")]
)
rules = st.builds(
    Rule,
    verdict=st.sampled_from(VERDICTS),
    server=patterns,
    tool=patterns,
    arguments=st.dictionaries(st.sampled_from(["p", "q"]), conditions, max_size=1),
    read_only=maybe,
    destructive=maybe,
    idempotent=maybe,
    open_world=maybe,
    trusted=maybe,
) | st.builds(
    Rule,
    verdict=st.sampled_from(VERDICTS),
    server=patterns,
    kind=st.sampled_from([*KINDS, "*"]),
    name=st.none() | patterns,
    trusted=maybe,
)
annotations = st.builds(
    ToolAnnotations, read_only_hint=maybe, destructive_hint=maybe, idempotent_hint=maybe, open_world_hint=maybe
)
actions = st.builds(
    Action,
    kind=st.sampled_from(["tool", *KINDS]),
    server=names,
    name=names,
    arguments=st.dictionaries(st.sampled_from(["p", "q"]), st.sampled_from([1, "x", "/a/b", "/c"]), max_size=2),
    annotations=st.none() | annotations,
    trusted=st.booleans(),
)
some_rules = st.lists(rules, max_size=6)


@given(some_rules, rules, actions, st.integers(0, 6))
def test_one_more_deny_makes_nothing_looser(known: list[Rule], rule: Rule, action: Action, place: int) -> None:
    deny = msgspec.structs.replace(rule, verdict="deny")
    before = Policy(known).decide(action).verdict
    after = Policy([*known[:place], deny, *known[place:]]).decide(action).verdict
    assert stricter(before, after) == after


@given(some_rules, actions, st.none() | annotations)
def test_what_an_untrusted_server_says_makes_nothing_looser(
    known: list[Rule], action: Action, said: ToolAnnotations | None
) -> None:
    silent = msgspec.structs.replace(action, trusted=False, annotations=None)
    talking = msgspec.structs.replace(silent, annotations=said)
    before, after = Policy(known).decide(silent).verdict, Policy(known).decide(talking).verdict
    assert stricter(before, after) == after


@given(some_rules, some_rules, actions)
def test_rules_that_only_ask_or_deny_make_nothing_looser_when_they_come_first(
    own: list[Rule], theirs: list[Rule], action: Action
) -> None:
    """So a project's file can stand before the user's."""
    tightening = [rule for rule in theirs if rule.verdict != "allow"]
    before, after = Policy(own).decide(action).verdict, Policy([*tightening, *own]).decide(action).verdict
    assert stricter(before, after) == after

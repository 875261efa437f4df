"""Rules in files, with where they stand and what is wrong with them."""

from pathlib import Path

import pytest

from dovetail.policy.actions import Action
from dovetail.policy.conditions import Equals, Like, OneOf, Outside, Under
from dovetail.policy.policy_file import build_policy, load_policy, load_project_rules, load_rules, read_rules
from dovetail.policy.rules import Policy, Rule
from dovetail.protocol.errors import LocalError

TEXT = """\
# What my servers may do.
[[rules]]
verdict = "allow"
server = "files"
tool = "read_*"
arguments.path = { under = "~/project" }

[[rules]]  # never
verdict = "deny"
tool = "delete_*"
trusted = false

[[rules]]
verdict = "ask"
kind = "sampling"
"""


def written(folder: Path, text: str, name: str = "policy.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def complaint(folder: Path, text: str) -> str:
    with pytest.raises(LocalError) as caught:
        load_rules(written(folder, text))
    return str(caught.value).removeprefix(str(folder) + "/")


def test_each_rule_knows_its_line(tmp_path: Path) -> None:
    path = written(tmp_path, TEXT)
    assert load_rules(path) == (
        Rule("allow", server="files", tool="read_*", arguments={"path": Under("~/project")}, origin=f"{path}:2"),
        Rule("deny", tool="delete_*", trusted=False, origin=f"{path}:8"),
        Rule("ask", kind="sampling", origin=f"{path}:13"),
    )


def test_a_file_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    assert load_rules(tmp_path / "none.toml") == ()
    assert load_rules(written(tmp_path, "")) == ()


def test_every_condition(tmp_path: Path) -> None:
    text = """\
[[rules]]
verdict = "allow"
tool = "x"
[rules.arguments]
a = 5
b = { equals = "x" }
c = { one_of = ["x", "y"] }
"d.e" = { like = "a*" }
"/f/0" = { outside = "/tmp" }
g = { equals = { h = 1 } }
"""
    (rule,) = load_rules(written(tmp_path, text))
    assert rule.arguments == {
        "a": Equals(5),
        "b": Equals("x"),
        "c": OneOf(("x", "y")),
        "d.e": Like("a*"),
        "/f/0": Outside("/tmp"),
        "g": Equals({"h": 1}),
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules = 5", "policy.toml: `rules` is a list; write each rule below a line [[rules]]"),
        ("[[rule]]\nverdict = 'ask'", "policy.toml: there is no 'rule' in a policy; it has a list of `rules`"),
        ("[[rules]]\ntool = 'x'", "policy.toml:1: Object missing required field `verdict`"),
        (
            "[[rules]]\nverdict = 'ask'\n\n[[rules]]\nserver = 'x'\nverdict = 'alow'",
            "policy.toml:6: Invalid enum value 'alow' - at `$.verdict`",
        ),
        (
            "[[rules]]\nverdict = 'ask'\nservers = 'x'",
            "policy.toml:3: Object contains unknown field `servers`",
        ),
        (
            "[[rules]]\nverdict = 'ask'\ntool = 'x'\narguments.p = { beneath = '/a' }",
            "policy.toml:4: the argument 'p' cannot be tested with 'beneath'; there are equals, one_of, like, under,"
            " outside",
        ),
        (
            "[[rules]]\nverdict = 'ask'\ntool = 'x'\narguments.p = { under = 5 }",
            "policy.toml:4: the argument 'p', under: Expected `str`, got `int` - at `$.folder`",
        ),
        (
            "[[rules]]\nverdict = 'ask'\ntool = 'x'\nkind = 'prompt'",
            "policy.toml:1: A rule with `tool` is about tools: leave out `kind` and `name`",
        ),
        (
            "rules = [{ verdict = 'never' }]",
            "policy.toml, rule 1: Invalid enum value 'never' - at `$.verdict`",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    assert complaint(tmp_path, text) == message


def test_what_is_no_toml(tmp_path: Path) -> None:
    assert complaint(tmp_path, "[[rules]]\nverdict = ").startswith("policy.toml is no TOML: Invalid value (at")
    (tmp_path / "policy.toml").write_bytes(b"\xff")
    with pytest.raises(LocalError, match="is no TOML"):
        load_rules(tmp_path / "policy.toml")


def test_a_project_can_only_tighten(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match=r"mcp\.policy\.toml:2: a project's rules may only ask or deny"):
        load_project_rules(written(tmp_path, TEXT, "mcp.policy.toml"))
    path = written(tmp_path, "[[rules]]\nverdict = 'deny'\ntool = 'x'", "mcp.policy.toml")
    assert [rule.verdict for rule in load_project_rules(path)] == ["deny"]


def test_project_then_user_then_program(tmp_path: Path) -> None:
    user, project = tmp_path / "user", tmp_path / "project"
    user.mkdir()
    project.mkdir()
    written(user, "[[rules]]\nverdict = 'allow'\ntool = '*'")
    given = {"rules": [{"verdict": "deny", "tool": "drop_*"}]}

    def verdict(tool: str) -> str:
        policy = build_policy(given, folder=user, project=project)
        return policy.decide(Action(kind="tool", server="s", name=tool)).verdict

    assert (verdict("read"), verdict("drop_all")) == ("allow", "deny")
    written(project, "[[rules]]\nverdict = 'ask'\ntool = 'r*'", "mcp.policy.toml")
    assert (verdict("read"), verdict("write")) == ("ask", "allow")


def test_rules_of_a_program(tmp_path: Path) -> None:
    rule = Rule("deny", tool="x")
    assert build_policy(Policy([rule]), folder=tmp_path).rules == (rule,)
    assert read_rules({"rules": [rule, {"verdict": "ask", "tool": "y"}]})[1].origin == "code"
    with pytest.raises(LocalError, match="code: rule 2: Expected `object`, got `str`"):
        read_rules({"rules": [rule, "no"]})


def test_a_rule_in_a_file_names_principals_and_groups(tmp_path: Path) -> None:
    rules = ('verdict = "deny"\nnot_group = ["ops", "admins"]', 'verdict = "allow"\nprincipal = "ann"')
    path = written(tmp_path, "".join(f"[[rules]]\n{rule}\n" for rule in rules))
    assert load_rules(path) == (
        Rule("deny", not_group=("ops", "admins"), origin=f"{path}:1"),
        Rule("allow", principal="ann", origin=f"{path}:4"),
    )
    assert "name the `group` that may" in complaint(tmp_path, '[[rules]]\nverdict = "allow"\nnot_group = "x"\n')


def test_a_policy_of_one_file_needs_the_file(tmp_path: Path) -> None:
    origins = [rule.origin for rule in load_policy(written(tmp_path, TEXT)).rules]
    assert origins == ["policy.toml:2", "policy.toml:8", "policy.toml:13"]
    with pytest.raises(LocalError, match="no policy file"):
        load_policy(tmp_path / "other.toml")

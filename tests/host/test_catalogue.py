"""Names of tools and prompts of all servers."""

import re

from hypothesis import given
from hypothesis import strategies as st

from dovetail.host.catalogue import HostTool, NameTable, prompt_command, tool_name
from dovetail.types.tools import Tool

keys = st.text(st.sampled_from("ab_-.é/ "), max_size=8)
tools = st.text(st.sampled_from("ab_-.é/ 0f"), max_size=70)
owners = st.tuples(keys, tools)


def host_tool(server: str, tool: str) -> HostTool:
    return HostTool(name=tool_name(server, tool), server=server, tool=Tool(tool, {}))


class TestTools:
    def test_the_key_and_the_name_are_joined(self) -> None:
        assert tool_name("weather", "forecast") == "weather__forecast"
        assert tool_name("my_server", "_private__tool") == "my_server___private__tool"

    def test_a_long_name_ends_in_a_hash_of_both(self) -> None:
        name = tool_name("server", "x" * 100)
        assert len(name) == 64
        assert name != tool_name("server", "x" * 101)
        assert name == "server__xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx_f8f35434bbe3"

    def test_what_could_be_read_in_two_ways_has_a_hash(self) -> None:
        assert tool_name("a", "b__c") == "a__b__c"
        assert tool_name("a__b", "c") != "a__b__c"
        assert tool_name("a_", "b") != tool_name("a", "_b")

    def test_a_tool_cannot_take_the_name_that_another_got_by_its_hash(self) -> None:
        odd = tool_name("a", "read file")
        assert odd.startswith("a__read_file_")
        assert tool_name("a", odd.removeprefix("a__")) != odd

    @given(owners)
    def test_every_provider_takes_it(self, owner: tuple[str, str]) -> None:
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool_name(*owner))

    @given(st.sets(owners, max_size=60))
    def test_no_two_tools_share_a_name(self, all_of_them: set[tuple[str, str]]) -> None:
        assert len({tool_name(*owner) for owner in all_of_them}) == len(all_of_them)

    @given(st.lists(owners, unique=True, max_size=20), st.randoms())
    def test_whoever_else_is_there_changes_no_name(self, all_of_them: list[tuple[str, str]], random: object) -> None:
        names = NameTable(host_tool(*owner) for owner in all_of_them)
        fewer = NameTable(host_tool(*owner) for owner in reversed(all_of_them[::2]))
        for owner in all_of_them[::2]:
            for table in (names, fewer):
                found = table.find(tool_name(*owner))
                assert found is not None
                assert (found.server, found.tool.name) == owner

    def test_the_first_keeps_a_name(self) -> None:
        first, second = host_tool("a", "b"), HostTool(name="a__b", server="evil", tool=Tool("b", {}))
        names = NameTable([first, second])
        assert names.find("a__b") is first
        assert names.all() == [first]
        assert len(names) == 1
        assert names.find("a__c") is None


class TestPrompts:
    def test_the_command_names_the_server_by_its_key(self) -> None:
        assert prompt_command("git", "commit.message") == "/mcp.git.commit.message"

    def test_dots_in_a_key_and_blanks_make_a_hash(self) -> None:
        assert prompt_command("a.b", "c") != prompt_command("a", "b.c")
        assert " " not in prompt_command("a", "two words")

    @given(st.sets(owners, max_size=60))
    def test_no_two_prompts_share_a_command(self, all_of_them: set[tuple[str, str]]) -> None:
        commands = {prompt_command(*owner) for owner in all_of_them}
        assert len(commands) == len(all_of_them)
        assert all(re.fullmatch(r"/mcp\.[A-Za-z0-9_.-]{1,124}", command) for command in commands)

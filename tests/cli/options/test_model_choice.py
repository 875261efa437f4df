"""Models from the command line, the environment and the user's file."""

from pathlib import Path

import pytest

from dovetail.cli.options.model_choice import ModelConfig, find_models, model_help, parse_model
from dovetail.cli.parser import UsageError

FILE = """
[[models]]
provider = "openai"
name = "qwen3:8b"
base_url = "http://127.0.0.1:11434/v1"
cheap = 0.9

[[models]]
provider = "anthropic"
name = "claude-x"
key_env = "MY_KEY"
"""


@pytest.mark.parametrize(
    ("word", "model"),
    [
        ("openai:gpt-x", ModelConfig(provider="openai", name="gpt-x")),
        ("openai:a@http://h/v1", ModelConfig(provider="openai", name="a", base_url="http://h/v1")),
        ("openai:org/a@b:latest", ModelConfig(provider="openai", name="org/a@b:latest")),
        ("anthropic:claude-x", ModelConfig(provider="anthropic", name="claude-x")),
    ],
)
def test_a_word_names_a_model(word: str, model: ModelConfig) -> None:
    assert parse_model(word) == model


def test_models_come_in_the_order_in_which_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(FILE)
    environ = {"MY_KEY": "k", "DOVETAIL_MODEL": "claude"}
    assert [model.name for model in find_models([], {"MY_KEY": "k"}, tmp_path)] == ["qwen3:8b", "claude-x"]
    assert [model.name for model in find_models([], environ, tmp_path)] == ["claude-x", "qwen3:8b"]
    found = find_models(["openai:new", "qwen"], environ, tmp_path)
    assert [model.name for model in found] == ["new", "qwen3:8b", "claude-x"]
    assert found[1].traits.cheap == 0.9


def test_there_are_no_models_without_a_file(tmp_path: Path) -> None:
    assert find_models([], {}, tmp_path) == []
    assert str(tmp_path / "models.toml") in model_help({}, tmp_path)


@pytest.mark.parametrize(
    ("words", "file", "said"),
    [
        (["cloud:x"], "", "is not a model"),
        (["nobody"], FILE, "there is no model 'nobody'; in the file are: qwen3:8b, claude-x"),
        (["claude"], FILE, "needs a key in \\$MY_KEY"),
        ([], FILE.replace("0.9", "nan"), "models.toml cannot be read"),
        ([], FILE.replace("0.9", "7"), "<= 1"),
        ([], "[[models]]\nname = 3", "models.toml cannot be read"),
        ([], "models = [", "models.toml cannot be read"),
        ([], '[[models]]\nprovider = "openai"\nname = "a"\nkey = "secret"', "unknown field"),
    ],
)
def test_what_is_wrong_is_said(words: list[str], file: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text(file)
    with pytest.raises(UsageError, match=said):
        find_models(words, {}, tmp_path)


def test_a_model_that_nobody_named_is_left_out_where_it_cannot_be_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "models.toml").write_text(FILE)
    assert [model.name for model in find_models([], {}, tmp_path)] == ["qwen3:8b"]
    assert "claude-x needs a key in $MY_KEY" in capsys.readouterr().err

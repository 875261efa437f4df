"""The keys of a task's questions, as values."""

import pytest

from dovetail import InvalidAnswer, Refused
from dovetail.client.mrtr import MAX_INPUT_REQUESTS
from dovetail.client.tasks.questions import QuestionKeys, read_questions
from tests.client.tasks.task_server import question


def test_a_question_is_new_once():
    keys = QuestionKeys(10)
    assert keys.observe(["a"]) == (["a"], [])
    assert keys.observe(["a", "b"]) == (["b"], [])
    keys.answer("a")
    assert keys.observe(["a", "b"]) == ([], [])
    assert keys.observe(["b"]) == ([], [])


def test_an_open_question_that_is_shown_no_longer_is_withdrawn():
    keys = QuestionKeys(10)
    keys.observe(["a", "b"])
    keys.answer("a")
    assert keys.observe([]) == ([], ["b"])
    assert keys.observe([]) == ([], [])


def test_a_question_that_was_withdrawn_may_come_back():
    keys = QuestionKeys(10)
    keys.observe(["a"])
    keys.observe([])
    assert keys.observe(["a"]) == (["a"], [])


def test_questions_that_nobody_answers_any_more_are_new_again_and_count_once():
    keys = QuestionKeys(1)
    for _ in range(3):
        assert keys.observe(["a"]) == (["a"], [])
        keys.interrupt()


def test_rounds_are_limited():
    keys = QuestionKeys(2)
    keys.observe(["a", "b"])
    keys.observe(["a", "b", "c"])
    with pytest.raises(Refused, match="more than 2 times"):
        keys.observe(["d"])


def test_questions_at_once_are_limited():
    with pytest.raises(Refused, match="at once"):
        QuestionKeys(10).observe([str(number) for number in range(MAX_INPUT_REQUESTS + 1)])


def test_questions_are_read_as_rounds_read_them():
    assert list(read_questions({"a": question(), "b": {"method": "roots/list"}})) == ["a", "b"]
    assert read_questions(None) == read_questions({}) == {}
    for wrong in ({"a": {"method": "tools/call", "params": {}}}, {"a": 1}, {"a": {"method": "elicitation/create"}}):
        with pytest.raises(InvalidAnswer, match="cannot be read"):
            read_questions(wrong)

"""Answers to the questions of a task: checked when they come, and noted in its record."""

from __future__ import annotations

from typing import Any

from dovetail.protocol.errors import INVALID_PARAMS, ProtocolError
from dovetail.protocol.mrtr import JournalEntry
from dovetail.protocol.revisions.revision import Revision
from dovetail.protocol.tasks import Event, TaskQuestion, TaskRecord
from dovetail.schema.forms import read_form
from dovetail.server.mrtr.suspendable_call import load_answer
from dovetail.types.client_features import ElicitResult


def check_answer(revision: Revision, key: str, question: TaskQuestion, raw: Any) -> None:
    """Refuse an answer that the handler could not use (−32602): a wrong message must not end long work."""
    answer = load_answer(revision, question.method, raw)
    schema = (question.params or {}).get("requestedSchema")
    if not isinstance(answer, ElicitResult) or answer.action != "accept" or schema is None:
        return
    form = read_form(schema)
    # Some clients send null for a blank field.
    content = {name: value for name, value in (answer.content or {}).items() if value is not None}
    problems = form.problems(form.fill_defaults(content))
    if problems:
        raise ProtocolError(INVALID_PARAMS, f"The answer to {key!r} does not fit the form: {'; '.join(problems)}")


def with_answers(
    record: TaskRecord, answered: dict[str, TaskQuestion], responses: dict[str, Any], now: float
) -> TaskRecord | None:
    """The record of a task whose open questions, or some of them, were answered."""
    journal, heard = dict(record.journal), dict(record.heard)
    for key, question in answered.items():
        if record.by_hand:
            heard[key] = question.method, responses[key]
        else:
            journal[key] = JournalEntry(question.digest, responses[key])
    questions = {key: question for key, question in record.questions.items() if key not in answered}
    if questions:
        return record.replace(now, journal=journal, heard=heard, questions=questions, version=record.version + 1)
    return record.change(Event.ANSWERED, now, record.message, journal=journal, heard=heard, questions=questions)

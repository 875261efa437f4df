"""Policy: rules, approvals, the lockfile and the audit log; shared by the host, the gateway and the console.

    from dovetail.policy import Action, build_policy

Each is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dovetail import lazily

if TYPE_CHECKING:
    from dovetail.config.launch_spec import LaunchSpec
    from dovetail.policy.actions import Action, Decision
    from dovetail.policy.approval_questions import (
        CallQuestion,
        DefinitionQuestion,
        LaunchQuestion,
        No,
        Question,
        RootsQuestion,
        SamplingAnswerQuestion,
        SamplingQuestion,
        Yes,
    )
    from dovetail.policy.audit.chain import AuditRecord
    from dovetail.policy.audit.log import Audit, Unrecorded
    from dovetail.policy.audit.reader import read_records
    from dovetail.policy.audit.verify import Verified, verify
    from dovetail.policy.conditions import Equals, Like, OneOf, Outside, Under
    from dovetail.policy.definitions import Definition
    from dovetail.policy.inspection.inspector import Concern, Inspector
    from dovetail.policy.policy_file import build_policy
    from dovetail.policy.rules import Policy, Rule

_HOMES = {
    "Action": "policy.actions",
    "Audit": "policy.audit.log",
    "AuditRecord": "policy.audit.chain",
    "CallQuestion": "policy.approval_questions",
    "Concern": "policy.inspection.inspector",
    "Decision": "policy.actions",
    "Definition": "policy.definitions",
    "DefinitionQuestion": "policy.approval_questions",
    "Equals": "policy.conditions",
    "Inspector": "policy.inspection.inspector",
    "LaunchQuestion": "policy.approval_questions",
    "LaunchSpec": "config.launch_spec",
    "Like": "policy.conditions",
    "No": "policy.approval_questions",
    "OneOf": "policy.conditions",
    "Outside": "policy.conditions",
    "Policy": "policy.rules",
    "Question": "policy.approval_questions",
    "RootsQuestion": "policy.approval_questions",
    "Rule": "policy.rules",
    "SamplingAnswerQuestion": "policy.approval_questions",
    "SamplingQuestion": "policy.approval_questions",
    "Under": "policy.conditions",
    "Unrecorded": "policy.audit.log",
    "Verified": "policy.audit.verify",
    "Yes": "policy.approval_questions",
    "build_policy": "policy.policy_file",
    "read_records": "policy.audit.reader",
    "verify": "policy.audit.verify",
}

__all__ = [
    "Action",
    "Audit",
    "AuditRecord",
    "CallQuestion",
    "Concern",
    "Decision",
    "Definition",
    "DefinitionQuestion",
    "Equals",
    "Inspector",
    "LaunchQuestion",
    "LaunchSpec",
    "Like",
    "No",
    "OneOf",
    "Outside",
    "Policy",
    "Question",
    "RootsQuestion",
    "Rule",
    "SamplingAnswerQuestion",
    "SamplingQuestion",
    "Under",
    "Unrecorded",
    "Verified",
    "Yes",
    "build_policy",
    "read_records",
    "verify",
]


__getattr__ = lazily(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)

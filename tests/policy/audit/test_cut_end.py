"""The end of an audit log cannot be cut off unseen, also not by an attacker who removes or replaces its head."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dovetail.policy.audit.files import head_path
from dovetail.policy.audit.log import Audit, Unrecorded
from dovetail.policy.audit.verify import verify

pytestmark = pytest.mark.attack("M2")

KEPT = 6
"""Lines that the attacker leaves: the opening record and five calls of ten."""


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    audit = Audit(folder=tmp_path)
    for n in range(10):
        audit.write("call", server="s", name=f"tool {n}")
    return audit


def cut(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("r+b") as log:  # the same file, as an attacker would to stay unseen
        log.truncate(sum(map(len, lines[:KEPT])))


def remove_head(path: Path) -> None:
    head_path(path).unlink()


def empty_head(path: Path) -> None:
    head_path(path).write_bytes(b"")


@pytest.mark.parametrize("hide", [remove_head, empty_head])
def test_the_next_program_does_not_continue_a_log_whose_end_and_head_are_gone(
    audit: Audit, hide: Callable[[Path], None]
) -> None:
    audit.close()
    cut(audit.path)
    hide(audit.path)
    with pytest.raises(Unrecorded, match="its head is missing"):
        Audit(folder=audit.path.parent).write("call", name="after the cut")
    assert not verify(folder=audit.path.parent).whole


@pytest.mark.parametrize("hide", [remove_head, empty_head])
def test_the_program_that_wrote_the_log_does_not_continue_it_either(audit: Audit, hide: Callable[[Path], None]) -> None:
    cut(audit.path)
    hide(audit.path)
    with pytest.raises(Unrecorded):
        audit.write("call", name="after the cut")
    assert not verify(folder=audit.path.parent).whole


def test_a_running_program_notices_that_the_head_was_removed(audit: Audit) -> None:
    remove_head(audit.path)
    with pytest.raises(Unrecorded, match="its head is missing"):
        audit.write("call", name="after the removal")


@pytest.mark.parametrize("in_place", [True, False])
def test_a_running_program_does_not_continue_an_older_copy_of_both_files(audit: Audit, in_place: bool) -> None:
    path, old = audit.path, audit.path.with_name("old")
    shutil.copy(path, old)
    shutil.copy(head_path(path), head_path(old))
    audit.write("call", name="to be removed")
    if not in_place:
        path.unlink()
        head_path(path).unlink()
    shutil.copy(old, path)
    shutil.copy(head_path(old), head_path(path))
    with pytest.raises(Unrecorded, match="records that this program has written are missing"):
        audit.write("call", name="after the exchange")
    audit.close()
    with pytest.raises(Unrecorded, match="records that this program has written are missing"):
        audit.write("call", name="after it was opened again")


def test_both_files_emptied_under_a_running_program_are_no_new_log(audit: Audit) -> None:
    audit.path.write_bytes(b"")
    empty_head(audit.path)
    with pytest.raises(Unrecorded, match="records that this program has written are missing"):
        audit.write("call", name="after the removal")


def test_a_log_that_was_never_opened_completely_is_begun_anew(audit: Audit) -> None:
    """A program that is killed after it wrote the head of a new log leaves an empty log behind."""
    audit.close()
    other = audit.path.with_name("other.jsonl")
    with Audit(other, folder=audit.path.parent) as begun:
        begun._commit([])  # pyright: ignore[reportPrivateUsage]
    other.write_bytes(b"")
    with Audit(other, folder=audit.path.parent) as again:
        again.write("call", name="first")
    assert verify(other, folder=audit.path.parent).records == 2


def test_verify_says_when_the_log_began(audit: Audit) -> None:
    """Whoever removes both files begins a new log: the time of its beginning shows that."""
    first = verify(folder=audit.path.parent).began
    audit.path.unlink()
    remove_head(audit.path)
    audit.write("call", name="in a new log")
    again = verify(folder=audit.path.parent).began
    assert first is not None and again is not None and first < again

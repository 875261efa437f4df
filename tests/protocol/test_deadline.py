"""Deadlines of requests, as values."""

import pytest

from dovetail.protocol.deadline import NEVER, Timeouts


class TestTimeouts:
    def test_a_request_is_due_after_its_timeout(self):
        deadline = Timeouts(5).deadline(100)
        assert not deadline.due(104.9)
        assert deadline.due(105)
        assert deadline.exceeded == 5

    def test_a_request_without_timeouts_is_never_due(self):
        deadline = Timeouts(None).deadline(100)
        assert deadline.at == NEVER
        assert not deadline.due(1e12)
        assert deadline.exceeded is None

    def test_a_maximum_alone_is_a_deadline(self):
        deadline = Timeouts(None, 30).deadline(100)
        assert deadline.due(130)
        assert deadline.exceeded == 30

    def test_a_maximum_below_the_timeout_comes_first(self):
        deadline = Timeouts(20, 3).deadline(100)
        assert deadline.due(103)
        assert deadline.exceeded == 3


class TestRenewed:
    def test_progress_begins_the_timeout_again(self):
        assert Timeouts(5).deadline(100).renewed(104).at == 109

    def test_progress_moves_no_deadline_beyond_the_maximum(self):
        deadline = Timeouts(5, 8).deadline(100).renewed(104)
        assert deadline.at == 108
        assert deadline.exceeded == 8

    def test_the_default_maximum_is_ten_minutes(self):
        deadline = Timeouts(5).deadline(100)
        for now in range(104, 800, 4):
            deadline = deadline.renewed(now)
        assert (deadline.at, deadline.exceeded) == (700, 600)
        assert deadline.exceeded_text == "600 s, which max_timeout allows at most, with or without progress"

    def test_a_longer_timeout_is_its_own_maximum(self):
        deadline = Timeouts(900).deadline(100).renewed(500)
        assert (deadline.at, deadline.exceeded_text) == (1000, "900 s")

    def test_progress_changes_nothing_where_only_the_maximum_counts(self):
        deadline = Timeouts(None, 30).deadline(100)
        assert deadline.renewed(120) == deadline


class TestPause:
    def test_no_request_is_due_while_paused(self):
        assert not Timeouts(5).deadline(100).paused(102).due(1000)

    @pytest.mark.parametrize("length", [0, 1, 500])
    def test_the_time_that_was_left_at_the_pause_is_left_after_it(self, length: float):
        deadline = Timeouts(5).deadline(100).paused(102).resumed(102 + length)
        assert deadline.at == 105 + length
        assert deadline.limit == 700 + length

    def test_a_second_pause_does_not_move_the_first(self):
        paused = Timeouts(5).deadline(100).paused(102)
        assert paused.paused(110) == paused

    def test_resuming_without_a_pause_changes_nothing(self):
        deadline = Timeouts(5).deadline(100)
        assert deadline.resumed(103) == deadline

    def test_progress_while_paused_leaves_the_whole_timeout_for_afterwards(self):
        deadline = Timeouts(5).deadline(100).paused(102).renewed(110).resumed(120)
        assert deadline.at == 125

    def test_the_maximum_holds_across_a_pause(self):
        deadline = Timeouts(5, 8).deadline(100).paused(102).renewed(104).resumed(112)
        assert deadline.renewed(116).at == 118

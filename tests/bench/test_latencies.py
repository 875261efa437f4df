"""Percentiles of a run, what a proxy adds, and the table of them."""

import pytest

from bench.latencies import added, latency_table, paced_verdicts, percentile, percentile_of, percentiles_as_json
from bench.rows import PACED_TABLES, PacedRow

DIRECT = PacedRow("direct at 10", "direct")
OURS = PacedRow("gateway at 10", "through the gateway", "direct at 10", most=0.5)
ALONE = PacedRow("mcp-proxy at 10", "through mcp-proxy")


def milliseconds(*values: float) -> list[float]:
    return [value / 1000 for value in values]


def test_a_percentile_is_one_of_the_values() -> None:
    hundred = [float(value) for value in range(100, 0, -1)]
    assert [percentile(hundred, share) for share in (0.01, 0.5, 0.9, 0.99, 1)] == [1, 50, 90, 99, 100]
    assert percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0], 0.5) == 1


def test_a_percentile_of_a_run_is_of_all_its_calls() -> None:
    found = percentile_of([[1.0] * 99, [2.0] * 100, [9.0]], 0.99)
    assert found == (2.0, 1.0, 9.0)


def test_what_a_proxy_adds_is_measured_against_direct_calls_at_the_same_rate() -> None:
    latencies = {"direct at 10": [milliseconds(1, 2)], "gateway at 10": [milliseconds(1.25), milliseconds(5)]}
    assert added(OURS, 0.5, latencies) == pytest.approx(0.000_25)
    assert added(OURS, 0.99, latencies) == pytest.approx(0.003)
    assert added(DIRECT, 0.5, latencies) is None
    assert added(OURS, 0.5, {"gateway at 10": [[0.1]]}) is None


def test_the_median_that_is_added_is_held_to_its_bound() -> None:
    quick = {"direct at 10": [milliseconds(1)], "gateway at 10": [milliseconds(1.4)]}
    slow = {"direct at 10": [milliseconds(1)], "gateway at 10": [milliseconds(1.6)]}
    assert [verdict.met for verdict in paced_verdicts(OURS, quick)] == [True]
    assert [verdict.met for verdict in paced_verdicts(OURS, slow)] == [False]
    assert paced_verdicts(OURS, {}) == []


def test_the_table_says_what_is_missing() -> None:
    latencies = {"direct at 10": [milliseconds(1, 2), milliseconds(3, 4)], "gateway at 10": [milliseconds(1.25, 9)]}
    figures = [{"gateway at 10 core": 0.02, "gateway at 10 late": 0.0001}, {"gateway at 10 core": 0.04}]
    lines = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in latency_table([DIRECT, OURS, ALONE], latencies, figures).splitlines()
    ]
    assert lines[0][3:8] == ["p50, ms", "p90, ms", "p99, ms", "p50 added, ms", "p99 added, ms"]
    assert lines[2] == ["direct", "4", "–", "2.00 (1.00–3.00)", *["4.00 (2.00–4.00)"] * 2, "–", "–", "–", ""]
    assert lines[3][:3] == ["through the gateway", "2", "3.00 (2.00–4.00)"]
    assert lines[3][6:] == ["-0.75", "5.00", "0.10 (0.10–0.10)", "p50 added ≤ 0.5 ms: met"]
    assert lines[4] == ["through mcp-proxy", "0", *["–"] * 7, ""]
    assert "NOT MEASURED" in latency_table([OURS], {}, [])


def test_the_results_file_has_the_percentiles_of_the_run() -> None:
    found = percentiles_as_json({"gateway at 10": [[0.1, 0.2], [0.3]], "mcp-proxy at 10": []})
    assert list(found) == ["gateway at 10"]
    assert found["gateway at 10"]["calls"] == [2, 1]
    assert found["gateway at 10"]["p50"] == {"whole": 0.2, "low": 0.1, "high": 0.3}


def test_a_row_is_compared_with_another_row_of_its_own_table() -> None:
    for _, rows in PACED_TABLES:
        assert {row.direct for row in rows} <= {"", *(row.figure for row in rows)}
        assert len({row.figure for row in rows}) == len(rows)

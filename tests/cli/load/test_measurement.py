"""The figures of a load test, with values."""

import pytest

from dovetail.cli.load.measurement import LoadMeasurement, percentile
from dovetail.cli.load.options import is_local


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(number) for number in range(1, 101)]
    assert [percentile(values, percent) for percent in (50, 90, 99, 100)] == [50, 90, 99, 100]
    assert percentile([7.0], 50) == percentile([7.0], 99) == 7.0
    assert percentile([1.0, 2.0], 50) == 1.0 and percentile([1.0, 2.0], 51) == 2.0


def test_the_summary_has_latencies_throughput_and_errors_by_kind() -> None:
    measured = LoadMeasurement()
    for number in range(1, 101):
        measured.add_success(number / 1000)
    measured.add_error("timeout", "no answer\nin time")
    measured.add_error("tool_error", "first")
    measured.add_error("tool_error", "second")
    measured.seconds = 2.0
    assert measured.as_json() == {
        "calls": 103,
        "failed": 3,
        "seconds": 2.0,
        "callsPerSecond": 50.0,
        "milliseconds": {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0, "mean": 50.5},
        "errors": {"timeout": 1, "tool_error": 2},
    }
    assert measured.lines("add", 8) == [
        "103 calls of add in 2.00 s, 8 at a time: 50 calls/s",
        "  ms      p50 50.00  p90 90.00  p99 99.00  max 100.00  mean 50.50",
        "  errors  3",
        "    2 tool_error: first",
        "    1 timeout: no answer in time",
    ]


def test_a_test_without_calls_has_no_latencies() -> None:
    measured = LoadMeasurement()
    assert measured.milliseconds() == {} and measured.per_second() == 0.0
    assert measured.lines("add", 8)[1:] == ["  errors  0"]


@pytest.mark.parametrize(
    ("target", "local"),
    [
        ("server.py", True),
        ("python server.py", True),
        ("unix:/run/x.sock", True),
        ("http://localhost:8000/mcp", True),
        ("ws://[::1]/mcp", True),
        ("http://127.9.9.9/mcp", True),
        ("https://example.com/mcp", False),
        ("http://10.0.0.1/mcp", False),
        ("http://localhost.example.com/", False),
        ("http://[::1/", False),
    ],
)
def test_only_this_machine_is_local(target: str, local: bool) -> None:
    assert is_local(target) is local

"""Metrics of a gateway: what is counted, and the text that Prometheus reads."""

from __future__ import annotations

import re
from typing import NamedTuple

import pytest

from dovetail.gateway import metrics as module
from dovetail.gateway.metrics import BUCKETS, Metrics

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:\\.|[^"\\])*",?)*)\})? (\S+)')
LABEL = re.compile(r'([a-z]+)="((?:\\.|[^"\\])*)"')
ESCAPED = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """One line of the text: name, labels, value."""

    name: str
    labels: frozenset[tuple[str, str]]


def parse(text: str) -> tuple[dict[Sample, float], dict[str, str]]:
    """The samples, and the types of their families; every line must be of the format, and no sample come twice."""
    samples: dict[Sample, float] = {}
    types: dict[str, str] = {}
    assert text.endswith("\n")
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            assert word in ("HELP", "TYPE") and rest
            if word == "TYPE":
                assert name not in types
                types[name] = rest
            continue
        match = LINE.fullmatch(line)
        assert match is not None, line
        labels = frozenset((name, _plain(value)) for name, value in LABEL.findall(match[2] or ""))
        sample = Sample(match[1], labels)
        assert sample not in samples, line
        samples[sample] = float(match[3])
    return samples, types


def _plain(value: str) -> str:
    return ESCAPED.sub(lambda match: "\n" if match[1] == "n" else match[1], value)


def sample(metric: str, /, **labels: str) -> Sample:
    return Sample(f"dovetail_gateway_{metric}", frozenset(labels.items()))


def recorded() -> Metrics:
    """Three requests to one tool: an answer, an error of the server, and none."""
    metrics = Metrics()
    metrics.record("git", "tools/call", "git__log", 0.004, error=False, failure=False)
    metrics.record("git", "tools/call", "git__log", 0.04, error=True, failure=False)
    metrics.record("git", "tools/call", "git__log", 90.0, error=True, failure=True)
    return metrics


def test_requests_errors_and_failures_are_counted_by_server_method_and_name() -> None:
    samples, types = parse(recorded().text({"git": True}, {"git": 2}))
    labels = {"server": "git", "method": "tools/call", "name": "git__log"}
    assert samples[sample("requests_total", **labels)] == 3
    assert samples[sample("errors_total", **labels)] == 2
    assert samples[sample("failures_total", **labels)] == 1
    assert types["dovetail_gateway_requests_total"] == "counter"


def test_latencies_are_a_cumulative_histogram() -> None:
    samples, types = parse(recorded().text({"git": True}, {"git": 2}))
    labels = {"server": "git", "method": "tools/call", "name": "git__log"}
    counts = [samples[sample("request_seconds_bucket", **labels, le=str(bound))] for bound in BUCKETS]
    assert counts == sorted(counts)
    assert samples[sample("request_seconds_bucket", **labels, le="0.0025")] == 0
    assert samples[sample("request_seconds_bucket", **labels, le="0.005")] == 1
    assert samples[sample("request_seconds_bucket", **labels, le="0.05")] == 2
    assert samples[sample("request_seconds_bucket", **labels, le="60")] == 2
    assert samples[sample("request_seconds_bucket", **labels, le="+Inf")] == 3
    assert samples[sample("request_seconds_count", **labels)] == 3
    assert samples[sample("request_seconds_sum", **labels)] == pytest.approx(90.044)
    assert types["dovetail_gateway_request_seconds"] == "histogram"


def test_a_latency_at_a_bound_counts_below_it() -> None:
    metrics = Metrics()
    metrics.record("git", "tools/call", "a", 0.01, error=False, failure=False)
    samples, _ = parse(metrics.text({}, {}))
    labels = {"server": "git", "method": "tools/call", "name": "a"}
    assert samples[sample("request_seconds_bucket", **labels, le="0.01")] == 1
    assert samples[sample("request_seconds_bucket", **labels, le="0.005")] == 0


def test_each_server_is_up_or_not_and_has_its_connections() -> None:
    samples, types = parse(Metrics().text({"git": True, "web": False}, {"git": 2, "web": 0}))
    assert samples[sample("server_up", server="git")] == 1
    assert samples[sample("server_up", server="web")] == 0
    assert samples[sample("connections", server="git")] == 2
    assert types["dovetail_gateway_server_up"] == types["dovetail_gateway_connections"] == "gauge"


def test_names_with_quotes_backslashes_and_line_breaks_are_escaped() -> None:
    name = 'a"b\\c\nd{e="f"}'
    metrics = Metrics()
    metrics.record(name, "resources/read", name, 1, error=False, failure=False)
    samples, _ = parse(metrics.text({name: True}, {name: 1}))
    assert samples[sample("requests_total", server=name, method="resources/read", name=name)] == 1
    assert samples[sample("server_up", server=name)] == 1


def test_names_above_the_limit_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SERIES", 2)
    metrics = Metrics()
    for name in ("a", "b", "c", "d", "a"):
        metrics.record("git", "tools/call", name, 1, error=False, failure=False)
    samples, _ = parse(metrics.text({}, {}))
    requests = {
        name: samples.get(sample("requests_total", server="git", method="tools/call", name=name)) for name in "abcd"
    }
    assert requests == {"a": 2, "b": 1, "c": None, "d": None}
    assert samples[sample("requests_total", server="git", method="tools/call", name="other")] == 2


def test_the_totals_of_a_server_are_those_of_its_own_requests() -> None:
    metrics = recorded()
    metrics.record("git", "prompts/get", "git__review", 9.956, error=False, failure=False)
    metrics.record("web", "tools/call", "web__get", 1, error=True, failure=True)
    metrics.refused("git")
    git = {"requests": 4, "errors": 2, "failures": 1, "refused": 1, "meanSeconds": 25.0}
    new = {"requests": 0, "errors": 0, "failures": 0, "refused": 0, "meanSeconds": 0.0}
    assert (metrics.of_server("git"), metrics.of_server("new")) == (git, new)

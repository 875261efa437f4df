"""Metrics of a gateway: requests, errors and latency by server and tool, as Prometheus text."""

from __future__ import annotations

from bisect import bisect_left

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Upper bounds of the histogram of latencies, in seconds."""

MAX_SERIES = 10_000
"""Combinations of server, method and name that are counted apart; further ones count as the name `other`."""


class _Series:
    __slots__ = ("buckets", "errors", "failures", "requests", "seconds")

    def __init__(self) -> None:
        self.requests = self.errors = self.failures = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BUCKETS) + 1)


class Metrics:
    """Counters of the requests that were forwarded."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, str, str], _Series] = {}
        self._refused: dict[str, int] = {}

    def record(self, server: str, method: str, name: str, seconds: float, *, error: bool, failure: bool) -> None:
        """Count a request: `error` if it ended in an error of any kind, `failure` if the server did not answer."""
        key = (server, method, name)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                key = (server, method, "other")
            series = self._series.setdefault(key, _Series())
        series.requests += 1
        series.errors += error
        series.failures += failure
        series.seconds += seconds
        series.buckets[bisect_left(BUCKETS, seconds)] += 1

    def refused(self, server: str) -> None:
        """Count a request that was not sent, because its server is not available."""
        self._refused[server] = self._refused.get(server, 0) + 1

    def of_server(self, server: str) -> dict[str, float]:
        """The totals of one server."""
        mine = [series for (whose, _, _), series in self._series.items() if whose == server]
        requests = sum(series.requests for series in mine)
        return {
            "requests": requests,
            "errors": sum(series.errors for series in mine),
            "failures": sum(series.failures for series in mine),
            "refused": self._refused.get(server, 0),
            "meanSeconds": round(sum(series.seconds for series in mine) / requests, 6) if requests else 0.0,
        }

    def text(self, up: dict[str, bool], connections: dict[str, int]) -> str:
        """All metrics in the text format of Prometheus, version 0.0.4."""
        lines = _family("dovetail_gateway_server_up", "gauge", "1 if the server works, 0 if it is not asked.")
        lines += [f"dovetail_gateway_server_up{_labels(server=key)} {int(works)}" for key, works in up.items()]
        lines += _family("dovetail_gateway_connections", "gauge", "Open connections to the server.")
        lines += [f"dovetail_gateway_connections{_labels(server=key)} {count}" for key, count in connections.items()]
        lines += _family(
            "dovetail_gateway_refused_total", "counter", "Requests not sent: the server was not available."
        )
        lines += [f"dovetail_gateway_refused_total{_labels(server=key)} {self._refused.get(key, 0)}" for key in up]
        for field, text in (
            ("requests", "Requests that were forwarded."),
            ("errors", "Requests that ended in an error, of the server or of the gateway."),
            ("failures", "Requests that the server did not answer."),
        ):
            name = f"dovetail_gateway_{field}_total"
            lines += _family(name, "counter", text)
            lines += [
                f"{name}{_labels(server=server, method=method, name=item)} {getattr(series, field)}"
                for (server, method, item), series in self._series.items()
            ]
        lines += self._latency()
        return "\n".join(lines) + "\n"

    def _latency(self) -> list[str]:
        name = "dovetail_gateway_request_seconds"
        lines = _family(name, "histogram", "Seconds from sending a request to its answer.")
        for (server, method, item), series in self._series.items():
            count = 0
            for bound, in_bucket in zip((*map(str, BUCKETS), "+Inf"), series.buckets, strict=True):
                count += in_bucket
                lines.append(f"{name}_bucket{_labels(server=server, method=method, name=item, le=bound)} {count}")
            labels = _labels(server=server, method=method, name=item)
            lines += [f"{name}_sum{labels} {series.seconds:.6f}", f"{name}_count{labels} {series.requests}"]
        return lines


def _family(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _labels(**labels: str) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inner}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

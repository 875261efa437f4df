"""Shows where Dovetail's server spends its time in one of the HTTP items; the profiler itself slows what it sees."""

import os
import signal

from bench.http_load import HttpServer
from bench.http_measures import FEW, FEW_ITEMS, ITEMS, MANY, MANY_ITEMS, OTHERS
from bench.measures import QUICK, Effort
from bench.peers import find_peers


def profile(title: str, effort: Effort) -> int:
    """Run the items whose title contains `title`, each on a server of its own under cProfile."""
    items = [
        (others, name, item)
        for others, group in ((OTHERS, ITEMS), (FEW, FEW_ITEMS), (MANY, MANY_ITEMS))
        for name, item in group.items()
    ]
    wanted = [found for found in items if title in found[1]]
    if not wanted:
        print("The items are:", *(name for _, name, _ in items), sep="\n  ")
        return 0
    [ours] = [peer for peer in find_peers() if peer.name == "dovetail"]
    os.environ["BENCH_PROFILE"] = "1"
    for others, name, item in wanted:
        server = HttpServer([*ours.http, str(others)])
        try:
            item(server, QUICK)
            server.process.send_signal(signal.SIGUSR1)
            figures = item(server, effort)
            server.process.send_signal(signal.SIGUSR1)
            assert server.process.stdout
            print(f"{name}: {figures}", server.process.stdout.read().decode(), sep="\n")
        finally:
            server.close()
    return 0

"""Fair queue: decides whose job a thread takes next while most threads are busy, without threads or locks of its own.

Each job belongs to a client and to a function. As long as fewer than half of the threads are busy, any job may take a
free one. Above that, a job may take a thread only if its client and its function hold few compared to what is still
free, so that a client whose calls block, or a function that hangs, always leaves threads to others. The shares
shrink as threads become fewer: the second client that blocks gets less than the first, and so on.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Hashable, Iterable
from typing import Generic, TypeAlias, TypeVar

Job = TypeVar("Job")

Share: TypeAlias = "tuple[Hashable, Hashable]"
"""The client that a job is for, and the function that it calls; None counts as any other."""

PART = 3
"""A client, or a function, takes at most so many times the threads that are left free: three quarters of them all."""


class FairQueue(Generic[Job]):
    """Jobs that wait for one of `threads` threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._waiting: OrderedDict[Hashable, OrderedDict[Hashable, deque[Job]]] = OrderedDict()
        """By function and client. The function and the client that were served last are at the end.

        Functions come first because there are few: if one hangs for a thousand clients, it is skipped at once.
        """

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, share: Share, job: Job) -> None:
        """Let a job wait."""
        client, function = share
        clients = self._waiting.get(function)
        if clients is None:
            clients = self._waiting[function] = OrderedDict()
        jobs = clients.get(client)
        if jobs is None:
            jobs = clients[client] = deque()
        jobs.append(job)

    def take(self, running: Iterable[Share]) -> Job | None:
        """The next job that may take a thread while the threads of `running` are busy; None if there is none."""
        shares = Counter(running)
        free = self._threads - shares.total()
        by_client: Counter[Hashable] = Counter()
        by_function: Counter[Hashable] = Counter()
        for (client, function), count in shares.items():
            by_client[client] += count
            by_function[function] += count
        for function, clients in self._waiting.items():
            if by_function[function] >= PART * free:
                continue
            # At most as many clients are skipped as have a thread.
            for client in clients:
                if shares[client, function] < free and by_client[client] < PART * free:
                    return self._remove(function, client)
        return None

    def _remove(self, function: Hashable, client: Hashable) -> Job:
        clients = self._waiting[function]
        jobs = clients[client]
        job = jobs.popleft()
        if jobs:
            clients.move_to_end(client)
        else:
            del clients[client]
        if clients:
            self._waiting.move_to_end(function)
        else:
            del self._waiting[function]
        return job

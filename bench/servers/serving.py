"""Serves an ASGI application on loopback the same way for every Python peer: uvicorn with uvloop and httptools."""

import os
import socket


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def profiled() -> bool:
    """Whether the server is to be run under a profiler."""
    return bool(os.environ.get("BENCH_PROFILE"))


def serve(app: object, **settings: object) -> None:
    """Listen on a free port, write it as the first line of output, and serve until killed; no log line a request.

    `settings` are uvicorn's.
    """
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, loop="uvloop", http="httptools", access_log=False, log_level="warning", **settings)
    server = uvicorn.Server(config)
    if profiled():
        _serve_profiled(server, listener)
    else:
        server.run(sockets=[listener])


def _serve_profiled(server, listener: socket.socket) -> None:
    """Serve, under a profiler from one SIGUSR1 to the next, and then print what took the time."""
    import cProfile
    import pstats
    import signal

    profiler = cProfile.Profile()
    begun: list[bool] = []

    def turn(*_: object) -> None:
        if begun:
            profiler.disable()
            server.should_exit = True
        else:
            begun.append(True)
            profiler.enable()

    signal.signal(signal.SIGUSR1, turn)
    server.run(sockets=[listener])
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)

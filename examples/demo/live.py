"""The terminal application with the three demo servers, for you at the keyboard: `make demo-live` runs this.

Words after it go to `dovetail host`, such as `--model openai:NAME@URL` for a model that knows more than its script.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from demo_servers import COMMAND, MODEL_SCRIPT, demo_servers


def main() -> int:
    """Start the servers, and the application with settings of its own."""
    words = sys.argv[1:]
    model = [] if any(word.startswith("--model") for word in words) else ["--model", f"scripted:{MODEL_SCRIPT}"]
    with demo_servers() as folder:
        settings = {"XDG_CONFIG_HOME": str(folder), "APPDATA": str(folder)}
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the application
        print("Try: What is the weather? Book a room. Send a postcard. Throw my notes away.")
        print("     Search hotels (and press Ctrl-C).")
        print("     /tools  /resources  /servers  /mcp.almanac.pack  /traffic follow  /help")
        return subprocess.call(
            [*COMMAND, "host", "--config", str(folder / "mcp.json"), *model, *words],
            env={**os.environ, **settings},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )


if __name__ == "__main__":
    sys.exit(main())

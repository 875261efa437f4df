"""The subcommands of `dovetail`; related ones share a module (see `parser.py`)."""

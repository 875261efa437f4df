"""The subcommands of `dovetail`, one module each."""

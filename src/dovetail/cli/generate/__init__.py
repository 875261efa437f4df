"""Generated files: server projects (`dovetail init`), and command lines of servers (`dovetail generate-cli`)."""

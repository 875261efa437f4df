"""Tasks in commands: calls that become tasks, and tasks that the user comes back to."""

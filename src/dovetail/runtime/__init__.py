"""Runtime: the package that owns tasks, deadlines and threads."""

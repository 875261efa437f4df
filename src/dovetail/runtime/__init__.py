"""The only room that owns tasks: connections, deadlines, worker threads."""

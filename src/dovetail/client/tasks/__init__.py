"""Tasks of a client: handles of calls whose results are fetched later, on both generations of tasks."""

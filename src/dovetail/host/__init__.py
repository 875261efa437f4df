"""Many servers under one person's control."""

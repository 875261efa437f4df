"""Command-line options and argument values that several commands share."""

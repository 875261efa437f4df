"""Slash-command views of `dovetail host`."""

"""Inspection of tool definitions for hidden or misleading text."""

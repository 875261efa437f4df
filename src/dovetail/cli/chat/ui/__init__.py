"""Terminal user interfaces of `dovetail host`."""

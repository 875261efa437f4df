"""`dovetail dev FILE`: one server under development, reloaded when its code changes, with its traffic."""

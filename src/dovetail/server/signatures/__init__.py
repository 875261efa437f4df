"""From type hints to schemas, and from JSON to arguments: everything about a signature, found out once."""

"""Type hints as JSON Schema, and the conversion of JSON values to the types that they name."""

"""JSON Schema: validation, forms, error texts and cost limits."""

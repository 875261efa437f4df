"""Text functions: sanitize, redact and rank."""

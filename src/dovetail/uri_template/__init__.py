"""URI templates (RFC 6570): expansion and linear-time matching."""

"""Access control of a gateway: callers, rules, and definitions that are held back."""

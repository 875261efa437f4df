"""Who may do what at a gateway: callers, rules, and definitions that are held back."""

"""Terminal input and output of the one-shot commands."""

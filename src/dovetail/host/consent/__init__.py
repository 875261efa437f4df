"""Consent: policy checks, approval prompts and guarded access to tools, prompts and resources."""

"""Server features of the specification: tools, resources, prompts, completion, logging, subscriptions."""

"""Formats of configuration files besides JSON: TOML, and the part of YAML that Goose writes."""

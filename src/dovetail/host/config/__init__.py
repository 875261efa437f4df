"""Configuration files that people already have: reading, editing and watching them."""

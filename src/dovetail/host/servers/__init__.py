"""Server processes and connections of a host: launch, supervision, health and logs."""

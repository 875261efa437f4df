"""Load tests of `dovetail call --load`."""

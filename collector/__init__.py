"""Runs inside training: standard library only until it starts."""

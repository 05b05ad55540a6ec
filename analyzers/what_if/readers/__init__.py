"""Readers of per-operation traces: files that say what each worker did, operation by operation."""

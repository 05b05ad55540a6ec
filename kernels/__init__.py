"""One file per operation: its reference, its fast form, its cost and its tolerance."""

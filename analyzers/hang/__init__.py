"""Hangs and mismatches: who did not come to a collective, or came with another one, from flight-recorder dumps."""

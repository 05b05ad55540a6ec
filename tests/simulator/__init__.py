"""Simulates multi-rank training runs with planted faults and writes them as Kineto traces, the exact truth beside them."""

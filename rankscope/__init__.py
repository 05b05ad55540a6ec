"""rankscope: where every nanosecond of a distributed PyTorch training step went, and what to change."""

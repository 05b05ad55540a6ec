"""Memory of the devices: what was held when, what of it lies waste, whether it grows, and what held it."""

"""One file a thing that is watched; found by being here. See `rankscope.collector.probe`."""

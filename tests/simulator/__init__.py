"""Simulates multi-rank training runs with planted faults and writes them as Kineto traces, the exact truth beside them.

`simulate(Scenario(...))` gives the traces and the truth. Standard library and numpy only; nothing else of rankscope is
imported, so that a test compares two independent accounts of the same run.
"""

from rankscope.simulator.run import Simulation, simulate
from rankscope.simulator.scenario import Fault, Scenario
from rankscope.simulator.truth import Planted, Truth

__all__ = ["Fault", "Planted", "Scenario", "Simulation", "Truth", "simulate"]

"""Plants a fault into recorded traces of several ranks, and knows what it did to the run.

`Spliceable(RecordedRun.read(folder)).splice(Plant(...)).write(folder)`. What happens after the fault is timed anew over
a graph of what waited for what; everything but times stays as it was recorded, and without a fault so do the times.

The graph, and what it assumes (a trace does not record everything that waits):

- A host is one timeline: the threads that train shift together, as they work in turns. Its own time is kept, and it
  never works faster. A launch queue never fills up.
- A blocking call (synchronise, allocate, free, copy) during which device work ends returns when the last such work has
  ended, and as long after it as recorded; any other lasts as long as it did.
- Device work starts after its launch and after what came before on its stream. A collective, and work before whose
  launch the host made a stream wait for an event, starts after what was last launched on every other stream, too,
  unless the recording shows that it did not wait (torch's process groups make NCCL's streams wait that way). Of these
  the last one ready decides, and the recorded distance to it is kept.
- A collective ends as long after the last arrival (of those that came before it ended) as recorded, on each rank:
  ranks leave together as far as they did. Collectives are paired by kind and order; where ranks saw unequal numbers,
  by the shift under which their ends lie closest. One without a partner keeps its duration.
- Without a device the arrival is the launch, a collective runs on its worker thread's own timeline, and a gap on the
  host in which a collective ends shortly before the next event was a wait for it.

`check` holds the result against this: nothing is earlier than recorded, work that was not touched lasts as long,
streams keep their order, collectives end together as far as they did.
"""

from rankscope.simulator.splicing.checking import check
from rankscope.simulator.splicing.placing import Clock
from rankscope.simulator.splicing.planting import Plant, PlantKind, Spliceable, Spliced
from rankscope.simulator.splicing.recorded import RecordedRun

__all__ = ["Clock", "Plant", "PlantKind", "RecordedRun", "Spliceable", "Spliced", "check"]

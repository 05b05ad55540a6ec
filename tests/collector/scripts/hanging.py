"""Two gloo ranks; rank 1 stops at step 6 and sleeps, so that rank 0 stands in its collective."""

from __future__ import annotations

import sys
import time

import torch
import torch.distributed as dist

import rankscope


def sleep_forever() -> None:
    time.sleep(600)


def main() -> None:
    if "early" in sys.argv:  # the session begins before there is a process group
        session = rankscope.profile(sys.argv[1], probes={"hang": {"floor_s": 1.0}}).start()
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo")
        session = rankscope.profile(sys.argv[1], probes={"hang": {"floor_s": 1.0}}).start()
    x = torch.ones(8)
    for step in range(10):
        if step == 6 and dist.get_rank() == 1 and "hang" in sys.argv:
            sleep_forever()
        dist.all_reduce(x)
        if step == 5 and "raise" in sys.argv:
            raise ValueError("no such luck")
        session.step()
    session.stop()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""A rank of the jobs of test_timeline.py. Prints a line of JSON with the names of its operations in order, and what its
own clock says about their times."""

import json
import os
import sys
import time

import numpy
import rueda

STEPS = 3
LATE = 2  # the rank that is late in step 1
LATE_SECONDS = 0.2


def main() -> None:
    rueda.init()
    done = []
    rueda.barrier()
    done.append("")
    for step in range(STEPS):
        rueda.begin_step(step)
        if step == 1 and rueda.rank() == min(LATE, rueda.size() - 1):
            with rueda.busy("being late"):
                # the test compares this time with the timeline; nothing else depends on the sleep
                time.sleep(LATE_SECONDS)
        waits = [rueda.allreduce_async(numpy.ones(1000, numpy.float32), f"gradient {i}") for i in range(5)]
        for wait in waits:
            wait.wait()
        rueda.broadcast(numpy.ones(4), 0, f"state {step}")
        done += [f"gradient {i}" for i in range(5)] + [f"state {step}"]
    with rueda.timeline_scope("the last scope"):
        pass
    line = {"rank": rueda.rank(), "host": os.environ.get("RUEDA_HOSTNAME", ""), "operations": done}
    rueda.shutdown()
    os.write(1, (json.dumps(line) + "\n").encode())


if __name__ == "__main__":
    sys.exit(main())

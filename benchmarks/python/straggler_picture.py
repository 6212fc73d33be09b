# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Records a timeline of a job in which one rank is late, and draws the timeline.

Usage: ruedarun --no-mpi -np 4 python benchmarks/python/straggler_picture.py PICTURE.svg
"""

import argparse
import json
import os
import tempfile
import time

import numpy
import rueda

WIDTH, LEFT, TOP, HEIGHT = 860, 170, 34, 14
STEPS, LATE_STEP, LATE_RANK = 4, 2, 2
ROWS = {"step": "steps", "scope": "program", "waits": "waiting for other ranks", "batch": "execution"}
COLOURS = {"step": "#d5d8dc", "scope": "#8fb8de", "waits": "#d98880", "batch": "#4a6f94"}


def train(step: int) -> None:
    rueda.begin_step(step)
    waits = []
    for layer in range(6):
        with rueda.timeline_scope("compute"):
            time.sleep(0.004 + 0.0005 * rueda.rank())  # simulates the computation of a layer
        waits.append(rueda.allreduce_async(numpy.ones(200_000, numpy.float32), f"layer {layer}"))
    for wait in waits:
        wait.wait()
    if step == LATE_STEP and rueda.rank() == LATE_RANK:
        with rueda.busy("saving checkpoint"):
            time.sleep(0.03)


def record(path: str) -> None:
    train(0)
    rueda.barrier()
    rueda.start_timeline(path)
    rueda.barrier()
    for step in range(STEPS):
        train(step + 1)
    rueda.stop_timeline()
    rueda.barrier()


def text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def picture(events: list[dict]) -> str:
    spans = [event for event in events if event.get("cat") in ROWS and event["ph"] == "X"]
    first = min(event["ts"] for event in spans if event["cat"] == "step")
    last = max(event["ts"] + event["dur"] for event in spans)
    scale = (WIDTH - LEFT - 10) / (last - first)
    shapes, y = [], float(TOP)
    for rank in sorted({event["pid"] for event in spans}):
        shapes.append(text(8, y + 11, f"rank {rank}"))
        for category, name in ROWS.items():
            shapes.append(text(LEFT - 8, y + 11, name, "end"))
            for event in spans:
                if (event["pid"], event["cat"]) == (rank, category) and event["ts"] >= first:
                    x, width = LEFT + (event["ts"] - first) * scale, max(event["dur"] * scale, 0.5)
                    shapes.append(
                        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT}" fill="{COLOURS[category]}"'
                        f' stroke="white" stroke-width="0.4"><title>{event["name"]}</title></rect>'
                    )
                    if width > 6 * len(event["name"]):
                        shapes.append(text(x + 3, y + 11, event["name"]))
            y += HEIGHT + 2
        y += 8
    shapes.append(text(WIDTH - 10, 22, f"{(last - first) / 1000:.0f} ms", "end"))
    head = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y:.0f}" font-family="sans-serif" font-size="11" role="img">
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- SPDX-FileCopyrightText: 2026 The Rueda authors -->
<title>A timeline of {STEPS} steps: rank {LATE_RANK} is late in one of them, and the others wait for it</title>"""
    return "\n".join([head, f'<rect width="{WIDTH}" height="{y:.0f}" fill="white"/>', *shapes, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture")
    given = parser.parse_args()
    rueda.init()
    path = rueda.broadcast_object(os.path.join(tempfile.gettempdir(), f"rueda-straggler-{os.getpid()}.json"))
    record(path)
    if rueda.rank() == 0:
        with open(path, encoding="utf-8") as file:
            events = json.load(file)
        with open(given.picture, "w", encoding="utf-8") as file:
            file.write(picture(events))
        os.remove(path)
    rueda.shutdown()


if __name__ == "__main__":
    main()

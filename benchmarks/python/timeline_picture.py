# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Draws the timeline of a training step: when each gradient of ResNet-50 is announced, and when its reduction is
complete.

Usage: ruedarun --no-mpi -np 2 python benchmarks/python/timeline_picture.py PICTURE.svg [--compute MS]
"""

import argparse
import json
import os
import tempfile

import rueda.torch as hvd
import torch
from rueda.torch.timeline import scope
from torch_step_bench import Model, resnet50, work_of

WIDTH, LEFT, LANE, TOP = 860, 150, 1.1, 34
COLOURS = {"backward pass": "#8fb8de", "wait for gradients": "#d98880", "optimizer step": "#b7c9a8"}


def step(model, optimizer) -> None:
    optimizer.zero_grad(set_to_none=True)
    loss = model(torch.ones(1, requires_grad=True), 1.0).sum()
    with scope("backward pass"):
        loss.backward()
    optimizer.step()


def record(path: str, compute: float) -> list[dict]:
    shapes = resnet50()
    model = Model(shapes, work_of(compute, shapes, hvd))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-3), model.named_parameters())
    for _ in range(3):
        step(model, optimizer)
    hvd.barrier()
    hvd.start_timeline(path)
    step(model, optimizer)
    hvd.stop_timeline()
    hvd.barrier()
    if hvd.rank() != 0:
        return []
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def bar(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" fill="{colour}"/>'


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def rank_of(events: list[dict], rank: int, place, y: float) -> tuple[list[str], float]:
    """Returns the drawing of one rank, and its lower end."""
    mine = [event for event in events if event["pid"] == rank]
    shapes = [label(8, y + 12, f"rank {rank}: trainer")]
    for event in mine:
        if event.get("cat") == "scope":
            begin, end = place(event["ts"]), place(event["ts"] + event["dur"])
            shapes.append(bar(begin, y, end - begin, 16, COLOURS[event["name"]]))
    y += 22
    shapes.append(label(8, y + 12, "gradients under way"))
    for event in sorted((event for event in mine if event.get("cat") == "negotiation"), key=lambda event: event["ts"]):
        announced, _, ended = event["args"]["ns"]
        x = place(event["ts"])
        shapes.append(bar(x, y, place(event["ts"] + (ended - announced) / 1000) - x, LANE, "#4a6f94"))
        y += LANE
    return shapes, y + 14


def picture(events: list[dict], ranks: int) -> str:
    # The picture begins with the backward pass. Earlier events do not belong to the drawn step.
    first = min(event["ts"] for event in events if event["name"] == "backward pass")
    events = [event for event in events if event.get("ts", 0) >= first]
    events = [event for event in events if event.get("cat") in ("scope", "negotiation")]
    last = max(event["ts"] + event.get("dur", 0) for event in events)

    def place(ts: float) -> float:
        return LEFT + (ts - first) / (last - first) * (WIDTH - LEFT - 10)

    shapes, y = [], float(TOP)
    for rank in range(ranks):
        made, y = rank_of(events, rank, place, y)
        shapes += made
    x = LEFT
    for name, colour in COLOURS.items():
        shapes += [bar(x, 10, 12, 12, colour), label(x + 16, 20, name)]
        x += 160
    milliseconds = (last - first) / 1000
    shapes.append(label(WIDTH - 10, y + 8, f"{milliseconds:.0f} ms", "end"))
    head = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 16:.0f}" font-family="sans-serif" font-size="11" role="img">
<!-- SPDX-License-Identifier: Apache-2.0 -->
<!-- SPDX-FileCopyrightText: 2026 The Rueda authors -->
<title>One training step: gradients are reduced while the backward pass goes on</title>"""
    return "\n".join([head, f'<rect width="{WIDTH}" height="{y + 16:.0f}" fill="white"/>', *shapes, "</svg>"]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("picture")
    parser.add_argument("--compute", type=float, default=200, help="milliseconds of the backward pass, without memory")
    given = parser.parse_args()
    hvd.init()
    torch.set_num_threads(1)
    path = hvd.broadcast_object(os.path.join(tempfile.gettempdir(), f"rueda-step-{os.getpid()}.json"))
    events = record(path, given.compute)
    if hvd.rank() == 0:
        with open(given.picture, "w", encoding="utf-8") as file:
            file.write(picture(events, hvd.size()))
        os.remove(path)
    hvd.shutdown()


if __name__ == "__main__":
    main()

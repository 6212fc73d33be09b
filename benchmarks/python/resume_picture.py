# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains a network in PyTorch twice: once without interruption, and once with two interruptions by SIGKILL. Draws both
losses in one picture, docs/images/resume.svg. Fails if a loss of the two runs differs in one bit.

Usage: python benchmarks/python/resume_picture.py PICTURE.svg (with the package rueda in PYTHONPATH)
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

from rueda import training

TRAINER = pathlib.Path(__file__).parents[2] / "tests/python/torch/resumed_training.py"
STEPS, RANKS = 120, 2
KILLS = ((1, 37, "backward"), (0, 83, "step"))  # which rank is killed, in which step, and in which part of the step


def run(launcher: str, folder: pathlib.Path, losses: pathlib.Path, *killed: object) -> dict[int, float]:
    """Runs the job until it ends or is killed. Returns the losses that it wrote, by step."""
    losses.unlink(missing_ok=True)
    job = [sys.executable, "-B", TRAINER, folder, losses, STEPS, *killed]
    subprocess.run([str(word) for word in (launcher, "--no-mpi", "-np", RANKS, *job)], stderr=subprocess.DEVNULL)
    lines = [line.split() for line in losses.read_text().splitlines()]
    return {int(step): float.fromhex(loss) for step, loss, _ in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", help="the SVG file to write")
    parser.add_argument("--ruedarun", default="ruedarun", help="the launcher")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        whole = run(arguments.ruedarun, folder / "whole", folder / "losses")
        parts = [run(arguments.ruedarun, folder / "killed", folder / "losses", *kill) for kill in KILLS]
        parts.append(run(arguments.ruedarun, folder / "killed", folder / "losses"))
    if sorted(whole) != list(range(STEPS)) or STEPS - 1 not in parts[-1]:
        raise SystemExit("a run did not end")
    for part in parts:
        for step, loss in part.items():
            if loss != whole[step]:
                raise SystemExit(f"step {step}: the loss is {loss} and was {whole[step]} without interruption")
    curves = {"uninterrupted": sorted(whole.items())}
    for number, part in enumerate(parts):
        # Each part is drawn a little higher than the part before it. Otherwise the curves would cover each other.
        lifted = [(step, loss + 0.25 * (number + 1)) for step, loss in sorted(part.items())]
        curves[f"start {number + 1}, lifted by {0.25 * (number + 1)}"] = lifted
    training.draw_curves(
        arguments.picture,
        curves,
        title=f"{RANKS} ranks, killed in steps {KILLS[0][1]} and {KILLS[1][1]}: the losses have the same bits",
        marks={"a rank is killed": [step for _, step, _ in KILLS]},
    )


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains examples/deepfm with 1, 2 and 4 ranks, and draws the losses in one picture, docs/images/ranks.svg. Fails if a
loss with several ranks differs from the loss with one rank by more than rounding, or if the AUCs differ by 0.002.

Usage: python benchmarks/python/ranks_picture.py PICTURE.svg --programs build/release/bin (with rueda in PYTHONPATH)
"""

import argparse
import csv
import pathlib
import re
import subprocess
import tempfile

from rueda import training

RANKS = (1, 2, 4)
LIFT = 0.1  # the distance between two curves of the picture


def train(programs: pathlib.Path, folder: pathlib.Path, ranks: int) -> tuple[list[tuple[float, float]], float]:
    """Returns the losses of all steps, and the AUC."""
    losses = folder / f"losses-{ranks}.csv"
    launch = [programs / "ruedarun", "--no-mpi", "-np", str(ranks), programs / "deepfm"]
    files = ["--train", f"{folder}/train-*.libsvm", "--test", f"{folder}/test-*.libsvm"]
    done = subprocess.run(
        [*launch, *files, "--epochs", "1", "--lanes", "4", "--curve", losses],
        check=True,
        capture_output=True,
        text=True,
    )
    auc = re.search(r"\bAUC ([\d.]+) after", done.stdout + done.stderr)
    if auc is None:
        raise SystemExit(f"deepfm with {ranks} ranks printed no AUC:\n{done.stdout}{done.stderr}")
    with losses.open() as file:
        return [(float(row["step"]), float(row["loss"])) for row in csv.DictReader(file)], float(auc[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", help="the SVG file to write")
    parser.add_argument(
        "--programs", type=pathlib.Path, required=True, help="the folder of ruedarun, deepfm and deepfm_data"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name) / "clicks"
        generate = [arguments.programs / "deepfm_data", "--folder", folder, "--rows", "60000", "--test-rows", "20000"]
        subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
        runs = {ranks: train(arguments.programs, folder, ranks) for ranks in RANKS}
    alone, _ = runs[1]
    farthest = max(
        abs(one - other) for losses, _ in runs.values() for (_, one), (_, other) in zip(losses, alone, strict=True)
    )
    aucs = [auc for _, auc in runs.values()]
    print(f"AUC {', '.join(f'{auc:.6f}' for auc in aucs)}; the losses of a step differ by at most {farthest:.1e}")
    if farthest > 1e-5 or max(aucs) - min(aucs) >= 0.002:
        raise SystemExit("the ranks do not train the same model")
    curves = {}
    for number, (ranks, (losses, auc)) in enumerate(runs.items()):
        # Each curve is drawn a little above the curve before it. Otherwise the curves would cover each other.
        label = f"{ranks} rank{'s' if ranks > 1 else ''}, AUC {auc:.5f}"
        label += f", lifted by {number * LIFT:.1f}" if number else ""
        curves[label] = [(step, loss + number * LIFT) for step, loss in losses]
    training.draw_curves(arguments.picture, curves, title="DeepFM with 1, 2 and 4 ranks: the same losses")


if __name__ == "__main__":
    main()

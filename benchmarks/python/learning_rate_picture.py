# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Trains examples/digits with 1, 2 and 4 ranks and each learning-rate policy, with 32 images per rank and step. Draws the
losses in one picture, docs/images/learning_rates.svg, and prints the accuracies. For the policy linear, it also trains without
a warm-up.

Usage: python benchmarks/python/learning_rate_picture.py PICTURE.svg --digits build/release/bin/digits
"""

import argparse
import csv
import pathlib
import re
import subprocess
import tempfile

from rueda import training

BATCH, EPOCHS, WARMUP_EPOCHS, RATE = 32, 8, 1, 0.03
POLICIES = ("none", "sqrt", "capped", "linear", "adasum")
RUNS = [
    (1, "none", WARMUP_EPOCHS),
    *((ranks, policy, WARMUP_EPOCHS) for ranks in (2, 4) for policy in POLICIES),
    (4, "linear", 0),
]


def run(
    command: list[str], ranks: int, policy: str, warmup_epochs: int, folder: pathlib.Path
) -> tuple[list[tuple[float, float]], float]:
    """Returns the mean loss of each epoch, and the accuracy at the end."""
    options = {
        "--batch": BATCH * ranks,
        "--epochs": EPOCHS,
        "--warmup-epochs": warmup_epochs,
        "--lr": RATE,
        "--lr-policy": policy,
        "--checkpoint-dir": folder,
    }
    words = [str(word) for pair in options.items() for word in pair]
    done = subprocess.run(
        [command[0], "--no-mpi", "-np", str(ranks), *command[1:], *words], check=True, capture_output=True, text=True
    )
    with open(folder / "curve.csv", newline="", encoding="utf-8") as file:
        rows = [(float(row["epoch"]), float(row["loss"])) for row in csv.DictReader(file)]
    epochs = sorted({epoch for epoch, _ in rows})
    means = [sum(losses) / len(losses) for losses in ([loss for at, loss in rows if at == epoch] for epoch in epochs)]
    return list(zip(epochs, means)), float(re.findall(r"accuracy (\d\.\d+)", done.stdout)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", help="the SVG file to write")
    parser.add_argument("--ruedarun", default="ruedarun", help="the launcher")
    parser.add_argument("--digits", default="digits", help="the program of examples/digits")
    parser.add_argument("--data", default="build/cache/digits.csv.gz", help="the images")
    arguments = parser.parse_args()
    command = [arguments.ruedarun, arguments.digits, "--data", arguments.data]
    curves = {}
    for ranks, policy, warmup_epochs in RUNS:
        with tempfile.TemporaryDirectory() as folder:
            curve, accuracy = run(command, ranks, policy, warmup_epochs, pathlib.Path(folder))
        name = f"{ranks} rank{'s' if ranks > 1 else ''}, {policy}{'' if warmup_epochs else ', no warm-up'}"
        curves[name] = curve
        print(f"{name}: accuracy {accuracy:.4f}, loss of the last epoch {curve[-1][1]:.4f}", flush=True)
    training.draw_curves(
        arguments.picture,
        curves,
        title=f"examples/digits, {BATCH} images per rank and step, base rate {RATE}",
        x_label="epoch",
        y_label="mean loss of the epoch",
        logarithmic=True,
    )


if __name__ == "__main__":
    main()

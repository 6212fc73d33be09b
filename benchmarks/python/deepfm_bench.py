# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares training steps of DeepFM under Rueda with the same steps under other libraries.

    python benchmarks/python/deepfm_bench.py [--libraries NAME,…] [--python NAME=PATH] [--sizes 1 2] [--batch N]
    [--rounds N]

Every library trains the same model (Guo et al. 2017; embeddings with sparse gradients, Adagrad) from the same initial
parameters with the same samples. The samples are in memory, so reading files is not part of the comparison. A batch is
split among the processes. The libraries are

- rueda: rueda.torch.DistributedOptimizer;
- ddp: PyTorch's DistributedDataParallel over Gloo;
- horovod: horovod.torch.DistributedOptimizer (Horovod 0.28 needs PyTorch 2.0 or older: compare --install horovod);
- tensorflow: tf.distribute.MultiWorkerMirroredStrategy, its step compiled by tf.function;
- torch and torch-of-horovod: one process of PyTorch without a library, with the two versions of PyTorch.

--python names the Python of a library. Without it, the program uses the TensorFlow and the Horovod that
`benchmarks/compare/compare --install tensorflow,horovod` has installed. If a library is missing, the program says so and
leaves it out. The libraries take turns in several rounds. The table has the median of the samples per second, and the
loss of the last step. The losses of all libraries and numbers of processes may differ by at most 0.1 %.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from peers import INSTALL, python_of

ROOT = Path(__file__).resolve().parents[2]
FIELDS, NUMBERS, EMBEDDING, HIDDEN = 39, 13, 8, (64, 32)
RATE, INITIAL = 0.05, 1e-3  # of Adagrad


def samples_of(arguments, rank: int, size: int):
    """Returns the labels, ids and values of this rank's part of each step."""
    chance = np.random.default_rng(1)
    shape = (arguments.steps, arguments.batch)
    ids = np.zeros((*shape, FIELDS), np.int64)
    ids[..., :NUMBERS] = np.arange(NUMBERS)
    # Category c of a field has a probability of about 1 / ((c + 1) ln vocabulary).
    categories = (arguments.vocabulary ** chance.random((*shape, FIELDS - NUMBERS)) - 1).astype(np.int64)
    ids[..., NUMBERS:] = NUMBERS + np.arange(FIELDS - NUMBERS) * arguments.vocabulary + categories
    values = np.ones((*shape, FIELDS), np.float32)
    values[..., :NUMBERS] = chance.random((*shape, NUMBERS))
    labels = (chance.random(shape) < 0.2 + 0.1 * (ids[..., NUMBERS] % 2) + 0.3 * values[..., 0]).astype(np.float32)
    return tuple(np.ascontiguousarray(array[:, rank::size]) for array in (labels, ids, values))


def parameters_of(arguments):
    """Returns the table, and the weights and biases of the dense layers."""
    chance = np.random.default_rng(2)
    table = chance.uniform(-0.03, 0.03, (NUMBERS + (FIELDS - NUMBERS) * arguments.vocabulary, 1 + EMBEDDING))
    table[:, 0] = 0
    layers, inputs = [], FIELDS * EMBEDDING
    for outputs in (*HIDDEN, 1):
        bound = 1 / math.sqrt(inputs)
        layers.append((chance.uniform(-bound, bound, (outputs, inputs)), chance.uniform(-bound, bound, outputs)))
        inputs = outputs
    return table.astype(np.float32), [(w.astype(np.float32), b.astype(np.float32)) for w, b in layers]


def timed(arguments, step, size: int):
    """Runs all steps. Returns the samples per second after the first steps, and the last loss."""
    for number in range(arguments.steps):
        if number == arguments.warm_up:
            begin = time.perf_counter()
        loss = step(number)
    loss = float(loss)  # waits for the last step
    seconds = time.perf_counter() - begin
    return {"rate": (arguments.steps - arguments.warm_up) * arguments.batch / seconds, "loss": loss}


def train_with_torch(arguments):
    import torch
    from torch import nn
    from torch.nn.functional import binary_cross_entropy_with_logits

    sys.path.insert(0, str(ROOT / "examples" / "deepfm"))
    from model import DeepFM

    torch.set_num_threads(1)
    rank, size, hvd = 0, 1, None
    if arguments.library == "rueda":
        import rueda.torch as hvd
    elif arguments.library == "horovod":
        import horovod.torch as hvd
    elif arguments.library == "ddp":
        torch.distributed.init_process_group("gloo")
        rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
    if hvd:
        hvd.init()
        rank, size = hvd.rank(), hvd.size()
    table, layers = parameters_of(arguments)
    model = DeepFM(len(table), EMBEDDING, list(HIDDEN))
    with torch.no_grad():
        model.table.weight.copy_(torch.from_numpy(table))
        for layer, (weight, bias) in zip((m for m in model.deep if isinstance(m, nn.Linear)), layers):
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=RATE, initial_accumulator_value=INITIAL)
    if hvd:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        # Horovod calls the constructor of the optimizer again. This call loses the initial values of the accumulators.
        for state in optimizer.state.values():
            state["sum"].fill_(INITIAL)
    trained = nn.parallel.DistributedDataParallel(model) if arguments.library == "ddp" else model
    labels, ids, values = (torch.from_numpy(array) for array in samples_of(arguments, rank, size))

    def step(number: int):
        optimizer.zero_grad()
        loss = binary_cross_entropy_with_logits(trained(ids[number], values[number]), labels[number])
        loss.backward()
        optimizer.step()
        return loss.detach()

    result = timed(arguments, step, size)
    # Each rank computes the loss of its own samples only.
    loss = torch.tensor([result["loss"]], dtype=torch.float64)
    if hvd:
        loss = hvd.allreduce(loss, op=hvd.Average)
        hvd.shutdown()
    elif arguments.library == "ddp":
        torch.distributed.all_reduce(loss)
        loss /= size
        torch.distributed.destroy_process_group()
    return rank, {**result, "loss": float(loss)}


def train_with_tensorflow(arguments):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)  # the second one communicates
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    cluster = json.loads(os.environ["TF_CONFIG"])
    rank, size = cluster["task"]["index"], len(cluster["cluster"]["worker"])
    initial_table, initial_layers = parameters_of(arguments)
    with strategy.scope():
        table = tf.Variable(initial_table)
        layers = [(tf.Variable(weight.T), tf.Variable(bias)) for weight, bias in initial_layers]
        variables = [table, *(variable for layer in layers for variable in layer)]
        optimizer = tf.keras.optimizers.Adagrad(RATE, initial_accumulator_value=INITIAL, epsilon=1e-20)
        optimizer.build(variables)

    def logits_of(ids, values):
        rows = tf.gather(table, ids) * values[:, :, None]
        linear, embeddings = tf.reduce_sum(rows[:, :, 0], 1), rows[:, :, 1:]
        pairs = 0.5 * tf.reduce_sum(
            tf.square(tf.reduce_sum(embeddings, 1)) - tf.reduce_sum(tf.square(embeddings), 1), 1
        )
        outputs = tf.reshape(embeddings, (-1, FIELDS * EMBEDDING))
        for weight, bias in layers[:-1]:
            outputs = tf.nn.relu(outputs @ weight + bias)
        weight, bias = layers[-1]
        return linear + pairs + tf.squeeze(outputs @ weight + bias, 1)

    def train(labels, ids, values):
        with tf.GradientTape() as tape:
            losses = tf.nn.sigmoid_cross_entropy_with_logits(labels, logits_of(ids, values))
            loss = tf.reduce_mean(losses) / size  # tf.distribute adds up the processes' gradients
        gradients = tape.gradient(loss, variables)
        # Several samples may use the same row of the table. The gradients of such a row are first added up. Otherwise
        # each of them would be sent, and Adagrad would add up the squares of the parts, not the square of the sum.
        rows, places = tf.unique(gradients[0].indices)
        sums = tf.math.unsorted_segment_sum(gradients[0].values, places, tf.size(rows))
        gradients[0] = tf.IndexedSlices(sums, rows, gradients[0].dense_shape)
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    @tf.function
    def step_of_all(labels, ids, values):
        return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(train, (labels, ids, values)), axis=None)

    arrays = [tf.constant(array) for array in samples_of(arguments, rank, size)]

    def step(number: int):
        return step_of_all(*(array[number] for array in arrays))

    return rank, timed(arguments, step, size)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def processes_of(library: str, size: int, command: list[str], build: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Returns the processes to start for a job of `size` ranks: for each process, its command and the environment
    variables to add."""
    threads = {"OMP_NUM_THREADS": "1"}
    if library == "rueda":
        return [([str(build / "bin" / "ruedarun"), "--no-mpi", "-np", str(size), *command],
                 {**threads, "PYTHONPATH": str(build / "python")})]  # fmt: skip
    if library == "horovod":
        # Horovod's documentation recommends not to bind its ranks. A short cycle time was Horovod's fastest setting.
        flags = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        return [(["mpirun", "-np", str(size), *flags, *command], {**threads, "HOROVOD_CYCLE_TIME": "0.1"})]
    if library == "ddp":
        address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(size)}
        return [
            (command, {**threads, **address, "GLOO_SOCKET_IFNAME": "lo", "RANK": str(rank)}) for rank in range(size)
        ]
    if library == "tensorflow":
        workers = [f"127.0.0.1:{free_port()}" for _ in range(size)]
        clusters = [
            json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}})
            for rank in range(size)
        ]
        return [(command, {**threads, "TF_CONFIG": text, "TF_CPP_MIN_LOG_LEVEL": "3"}) for text in clusters]
    return [(command, threads)]


def run(arguments, library: str, size: int) -> dict[str, float]:
    """Runs a job, and returns what its rank 0 printed."""
    python = arguments.python[library]
    command = [python, str(Path(__file__).resolve()), "--library", library]
    for name in ("batch", "steps", "warm_up", "vocabulary"):
        command += [f"--{name.replace('_', '-')}", str(getattr(arguments, name))]
    with contextlib.ExitStack() as stack:
        children, texts = [], []
        for argv, added in processes_of(library, size, command, arguments.build):
            outputs = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in ("standard output", "standard error")]
            children.append(subprocess.Popen(argv, env={**os.environ, **added}, stdout=outputs[0], stderr=outputs[1]))
            texts.append(outputs)
        deadline = time.monotonic() + arguments.timeout
        # If one process fails, the others may wait for it for ever.
        while any(child.poll() is None for child in children) and not any(child.poll() for child in children):
            if time.monotonic() > deadline:
                break
            time.sleep(0.05)
        for child in children:
            child.kill()
            child.wait()
        for file in (file for outputs in texts for file in outputs):
            file.seek(0)
        out, err = ("".join(outputs[kind].read() for outputs in texts) for kind in (0, 1))
    found = [line.partition("RESULT ")[2] for line in out.splitlines() if "RESULT " in line]
    if len(found) != 1 or any(child.returncode for child in children):
        sys.exit(f"{library} with {size} processes failed: {' '.join(command)}\n{err}")
    return json.loads(found[0])


def find_pythons(arguments, libraries: list[str]) -> dict[str, str]:
    """Returns the Python of each library. Leaves out the libraries that are missing."""
    found = {}
    for library in libraries:
        peer = {"torch-of-horovod": "horovod", "horovod": "horovod", "tensorflow": "tensorflow"}.get(library)
        python = arguments.python.get(library) or (python_of(peer) if peer else sys.executable)
        if python:
            found[library] = python
        else:
            print(f"{library} is left out: {peer} is missing; install it with `{INSTALL} {peer}`")
    return found


def compare(arguments) -> None:
    arguments.python = find_pythons(arguments, arguments.libraries.split(","))
    jobs = [
        (library, size)
        for library in arguments.python
        for size in ([1] if library.startswith("torch") else arguments.sizes)
    ]
    results: dict[tuple[str, int], list[dict[str, float]]] = {job: [] for job in jobs}
    for turn in range(arguments.rounds):
        for job in jobs if turn % 2 == 0 else reversed(jobs):
            results[job].append(run(arguments, *job))
    print(
        f"{arguments.batch} samples in a step, {arguments.vocabulary} categories in a field, medians of {arguments.rounds}"
    )
    print("| library | processes | samples/s | lowest, highest | last loss |\n|---|---|---|---|---|")
    for (library, size), all_runs in results.items():
        rates = [one["rate"] for one in all_runs]
        loss = {f"{one['loss']:.4f}" for one in all_runs}
        print(
            f"| {library} | {size} | {statistics.median(rates):,.0f} | {min(rates):,.0f}, {max(rates):,.0f} | "
            f"{', '.join(sorted(loss))} |"
        )
    losses = [one["loss"] for all_runs in results.values() for one in all_runs]
    if max(losses) - min(losses) > 1e-3 * max(losses):
        sys.exit(f"the libraries did not train the same model: their last losses are {min(losses)} to {max(losses)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", default="torch,rueda,ddp,torch-of-horovod,horovod,tensorflow")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="the Python of a library")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", help="the build folder of Rueda")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    parser.add_argument("--batch", type=int, default=512, help="samples of one step, all processes together")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--warm-up", type=int, default=50, help="first steps that are not timed")
    parser.add_argument("--vocabulary", type=int, default=10000, help="categories of each of the 26 fields")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=300, help="seconds that a job may take")
    parser.add_argument("--library", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if not arguments.library:
        arguments.python = dict(entry.split("=", 1) for entry in arguments.python)
        return compare(arguments)
    train = train_with_tensorflow if arguments.library == "tensorflow" else train_with_torch
    rank, result = train(arguments)
    if rank == 0:
        print("RESULT " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

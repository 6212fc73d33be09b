# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""Compares ways to get batches of 48 MB from Python generators into the trainer.

    python benchmarks/python/workers_bench.py [--ways NAME,…] [--batches N] [--workers N] [--rounds N]

For each batch, a producer first waits for --make seconds, as if it waited for a disk or a network, and then fills the arrays.
For each way to get the batches there are two measurements, each in a new process:

- full queue: the trainer needs more time for a step than the producers need for a batch. The table has the median and the
  longest time that the trainer waited for a batch. It also has the median time in which the trainer then read one number of
  each page of the batch. The first three batches of each worker do not count.
- rate: the trainer takes batches as fast as it can. The table has the delivered MB/s, measured from the begin of the first
  producer to the last batch. The table also compares this rate with the rate of producers that drop their batches.
  Producers that fill the arrays of worker.empty() allocate nothing, so they are compared with producers that fill one
  array again and again.

The ways take turns in each round, so that other work on the machine affects all ways alike. The table has the medians of the
rounds. If the package of a way is missing, the way is left out, and the output says so. `benchmarks/compare/compare
--install tensorflow,ray` installs two of the packages; PyTorch must be in the Python that runs this program.
"""

from __future__ import annotations

import argparse
import functools
import json
import multiprocessing
import statistics
import subprocess
import sys
import time

import numpy as np
from peers import INSTALL, python_of

SHAPE = (80, 3, 224, 224)  # float32: 48.2 MB
MEGABYTES = 4 * np.prod(SHAPE) / 1e6
AHEAD = 2


def fill(image: np.ndarray, number: int) -> None:
    image.fill(number)


def batches_of(worker_index: int, worker_count: int, batches: int, make: float):
    """Makes every worker_count-th batch. Each batch is in new memory, as if a decoder had made it."""
    began = np.array([time.monotonic()])
    for number in range(worker_index, batches, worker_count):
        time.sleep(make)
        image = np.empty(SHAPE, "float32")
        fill(image, number)
        yield {"image": image, "label": np.full(SHAPE[0], number), "began": began}


def batches_in_one_array(worker_index: int, worker_count: int, batches: int, make: float):
    """Makes the same batches, all of them in the same memory, like a producer that need not allocate."""
    began = np.array([time.monotonic()])
    image = np.empty(SHAPE, "float32")
    for number in range(worker_index, batches, worker_count):
        time.sleep(make)
        fill(image, number)
        yield {"image": image, "label": np.full(SHAPE[0], number), "began": began}


def batches_of_worker(worker, batches: int, make: float):
    yield from batches_of(worker.index, worker.count, batches, make)


def batches_in_place(worker, batches: int, make: float):
    """Makes the same batches in the memory of Rueda's slots."""
    began = np.array([time.monotonic()])
    for number in range(worker.index, batches, worker.count):
        time.sleep(make)
        image = worker.empty(SHAPE)
        fill(image, number)
        yield {"image": image, "label": np.full(SHAPE[0], number), "began": began}


def identity(batch):
    return batch


# Each function in WAYS gets the batches by another method, and returns an iterable of batches. The trainer reads
# batch["image"].


def in_process(arguments):
    return batches_of(0, 1, arguments.batches, arguments.make)


def rueda_workers(arguments, generator=batches_of_worker):
    import rueda.data

    return rueda.data.workers(
        generator, arguments.workers, args=(arguments.batches, arguments.make), prefetch=AHEAD, order="ready"
    )


def torch_loader(arguments, collate=None):
    import torch.utils.data

    class Batches(torch.utils.data.IterableDataset):
        def __iter__(self):
            info = torch.utils.data.get_worker_info()
            return batches_of(info.id, info.num_workers, arguments.batches, arguments.make)

    return torch.utils.data.DataLoader(
        Batches(), batch_size=None, num_workers=arguments.workers, prefetch_factor=AHEAD, collate_fn=collate
    )


def tensorflow_generator(arguments):
    import tensorflow as tf

    signature = {
        "image": tf.TensorSpec(SHAPE, tf.float32),
        "label": tf.TensorSpec((SHAPE[0],), tf.int64),
        "began": tf.TensorSpec((1,), tf.float64),
    }

    def of_worker(index):
        return tf.data.Dataset.from_generator(
            lambda worker: batches_of(int(worker), arguments.workers, arguments.batches, arguments.make),
            args=(index,),
            output_signature=signature,
        )

    workers = tf.data.Dataset.range(arguments.workers)
    dataset = workers.interleave(of_worker, cycle_length=arguments.workers, num_parallel_calls=arguments.workers)
    return dataset.prefetch(AHEAD * arguments.workers).as_numpy_iterator()


def ray_actors(arguments):
    """Uses Ray without Ray Data: each worker is an actor, whose batches lie in Ray's shared memory."""
    import ray

    ray.init(num_cpus=arguments.workers, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)

    @ray.remote
    class Producer:
        def __init__(self, index):
            self.batches = batches_of(index, arguments.workers, arguments.batches, arguments.make)

        def take(self):
            return next(self.batches, None)

    producers = [Producer.remote(index) for index in range(arguments.workers)]
    asked = [[one.take.remote() for _ in range(AHEAD)] for one in producers]
    while producers:
        for one, queue in list(zip(producers, asked)):
            queue.append(one.take.remote())
            batch = ray.get(queue.pop(0))
            if batch is None:
                producers.remove(one)
                asked.remove(queue)
            else:
                yield batch


def ray_data(arguments):
    """Uses Ray Data: it maps each batch number to a batch, in as many tasks as there are workers."""
    import ray

    ray.init(num_cpus=arguments.workers + 1, include_dashboard=False, log_to_driver=False, object_store_memory=2 << 30)
    ray.data.DataContext.get_current().enable_progress_bars = False

    def make(batch):
        number = int(batch["id"][0])
        made = next(batches_of(number, 1, number + 1, arguments.make))
        return {"image": made["image"], "label": made["label"], "began": np.repeat(made["began"], SHAPE[0])}

    numbers = ray.data.range(arguments.batches, override_num_blocks=arguments.batches)
    dataset = numbers.map_batches(make, batch_size=1, concurrency=arguments.workers)
    return dataset.iter_batches(batch_size=SHAPE[0], batch_format="numpy", prefetch_batches=AHEAD * arguments.workers)


WAYS = {
    "process": ("generator in the trainer's process", None, in_process),
    "torch": ("torch DataLoader, tensors", "torch", torch_loader),
    "torch-numpy": ("torch DataLoader, NumPy", "torch", functools.partial(torch_loader, collate=identity)),
    "tf": ("tf.data, from_generator", "tensorflow", tensorflow_generator),
    "ray": ("Ray, actors", "ray", ray_actors),
    "ray-data": ("Ray Data", "ray", ray_data),
    "rueda": ("rueda.data.workers", None, rueda_workers),
    "rueda-empty": (
        "rueda.data.workers, worker.empty()",
        None,
        functools.partial(rueda_workers, generator=batches_in_place),
    ),
}


def take(batches, step: float):
    """Returns the times at which each batch was asked for, received and read, and when its producer began to work."""
    times = []
    iterator = iter(batches)
    while True:
        asked = time.monotonic()
        batch = next(iterator, None)
        received = time.monotonic()
        if batch is None:
            return times
        numbers = batch["image"].reshape(-1)[::1024]
        total = float(numbers.sum())
        read = time.monotonic()
        assert total == len(numbers) * float(numbers[0]), "a wrong batch"
        times.append((asked, received, read, float(batch["began"][0])))
        del batch, numbers
        time.sleep(step)


def measure(arguments) -> dict[str, float]:
    way = WAYS[arguments.one][2]
    skipped = AHEAD * arguments.workers + arguments.workers
    if arguments.what == "full":
        # A step takes so long that the producers together are about twice as fast as the trainer.
        step = 2 * (arguments.make + 0.05) / (1 if arguments.one == "process" else arguments.workers) + 0.05
        times = take(way(arguments), step)[skipped:]
        waits = [received - asked for asked, received, _, _ in times]
        reads = [read - received for _, received, read, _ in times]
        return {"wait": statistics.median(waits), "longest": max(waits), "read": statistics.median(reads)}
    times = take(way(arguments), 0)
    assert len(times) == arguments.batches, f"{len(times)} batches"
    return {"rate": len(times) * MEGABYTES / (times[-1][1] - min(began for *_, began in times))}


#: The producers that are measured without a trainer. Their processes make the batches and drop them.
ALONE = {"alone": batches_of, "alone-reused": batches_in_one_array}
#: The way "rueda-empty" is compared with the producers "alone-reused", and all other ways with "alone".
COMPARED_WITH = {"rueda-empty": "alone-reused"}


def produce(one: str, index: int, count: int, batches: int, make: float, rates) -> None:
    began = time.monotonic()
    number = sum(1 for _ in ALONE[one](index, count, batches, make))
    rates.put(number * MEGABYTES / (time.monotonic() - began))


def producers_alone(arguments) -> dict[str, float]:
    """Runs the producers as processes that drop their batches."""
    context = multiprocessing.get_context("spawn")
    rates = context.SimpleQueue()
    given = (arguments.workers, arguments.batches, arguments.make, rates)
    processes = [
        context.Process(target=produce, args=(arguments.one, index, *given)) for index in range(arguments.workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return {"rate": sum(rates.get() for _ in processes)}


def run(arguments, one: str, what: str) -> dict[str, float]:
    package = WAYS[one][1] if one in WAYS else None
    python = python_of(package) if package else sys.executable
    command = [python, __file__, "--one", one, "--what", what]
    for name in ("batches", "workers", "make"):
        command += [f"--{name}", str(getattr(arguments, name))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def median(runs: list[dict[str, float]], key: str) -> float:
    return statistics.median(one[key] for one in runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", default=",".join(WAYS), help=f"some of {','.join(WAYS)}")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--make", type=float, default=0.25, help="seconds that a producer waits for each batch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--what", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(producers_alone(arguments) if arguments.one in ALONE else measure(arguments)))
        return
    ways = []
    for name in arguments.ways.split(","):
        package = WAYS[name][1]
        if package is not None and python_of(package) is None:
            # `compare --install` cannot install PyTorch.
            hint = "" if package == "torch" else f"; install it with `{INSTALL} {package}`"
            print(f"{WAYS[name][0]} is left out: the package {package} is missing{hint}")
        else:
            ways.append(name)
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    jobs = [(one, "rate") for one in ALONE] + [(name, what) for what in ("full", "rate") for name in ways]
    for turn in range(arguments.rounds):
        for job in jobs if turn % 2 == 0 else reversed(jobs):
            results.setdefault(job, []).append(run(arguments, *job))
    alone = {one: median(results[(one, "rate")], "rate") for one in ALONE}
    print(
        f"batches of {MEGABYTES:.1f} MB, {arguments.workers} producers, which alone make {alone['alone']:.0f} MB/s, and "
        f"{alone['alone-reused']:.0f} MB/s if each fills one array again and again"
    )
    print("| way | waiting for a batch, ms | longest, ms | reading its pages, ms | MB/s | of the producers' rate |")
    print("|---|---|---|---|---|---|")
    for name in ways:
        full, rate = results[(name, "full")], median(results[(name, "rate")], "rate")
        share = rate / alone[COMPARED_WITH.get(name, "alone")]
        print(
            f"| {WAYS[name][0]} | {1e3 * median(full, 'wait'):.2f} | {1e3 * median(full, 'longest'):.2f} | "
            f"{1e3 * median(full, 'read'):.2f} | {rate:.0f} | {100 * share:.0f} % |",
            flush=True,
        )


if __name__ == "__main__":
    main()

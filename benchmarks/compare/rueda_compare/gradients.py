# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The sizes of the gradients of some models. A set of gradients contains the number of elements of each gradient of a
model, in the order of a backward pass: from the last layer to the first.

The sizes follow from the models' architectures, so nothing is downloaded.
"""

from collections.abc import Iterator
from math import prod


def _resnet50() -> Iterator[tuple[int, ...]]:
    """Yields the shapes of ResNet-50 (He et al., arXiv:1512.03385, table 1, 50 layers, 1,000 classes): convolutions
    without bias, each followed by a batch normalisation (scale and shift)."""

    def convolution(inputs: int, outputs: int, kernel: int) -> Iterator[tuple[int, ...]]:
        yield (outputs, inputs, kernel, kernel)
        yield (outputs,)
        yield (outputs,)

    yield from convolution(3, 64, 7)
    channels = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            yield from convolution(channels, width, 1)
            yield from convolution(width, width, 3)
            yield from convolution(width, 4 * width, 1)
            if block == 0:  # the shortcut changes the number of channels
                yield from convolution(channels, 4 * width, 1)
            channels = 4 * width
    yield (1000, channels)
    yield (1000,)


def _bert_large() -> Iterator[tuple[int, ...]]:
    """Yields the shapes of BERT-large (Devlin et al., arXiv:1810.04805): 24 layers of width 1,024, a vocabulary of
    30,522, and the pooler."""
    width, inner = 1024, 4096

    def linear(inputs: int, outputs: int) -> Iterator[tuple[int, ...]]:
        yield (outputs, inputs)
        yield (outputs,)

    def normalisation() -> Iterator[tuple[int, ...]]:
        yield (width,)
        yield (width,)

    for rows in (30522, 512, 2):  # the embeddings of words, of positions, and of sentence A or B
        yield (rows, width)
    yield from normalisation()
    for _ in range(24):
        for _ in ("query", "key", "value", "output"):
            yield from linear(width, width)
        yield from normalisation()
        yield from linear(width, inner)
        yield from linear(inner, width)
        yield from normalisation()
    yield from linear(width, width)


def _recommender() -> Iterator[tuple[int, ...]]:
    """Yields the shapes of a model with many tiny tensors. Each of 300 features has an embedding table, a gate and a
    scale. There is a perceptron before the features and one after them, as in DLRM (Naumov et al.,
    arXiv:1906.00091)."""

    def perceptron(*widths: int) -> Iterator[tuple[int, ...]]:
        for inputs, outputs in zip(widths, widths[1:]):
            yield (outputs, inputs)
            yield (outputs,)

    yield from perceptron(13, 512, 256, 16)
    for feature in range(300):
        yield (4 + feature % 61, 16)
        yield (16,)
        yield (1,)
    yield from perceptron(316, 512, 256, 1)


_SHAPES = {"resnet50": _resnet50, "bert-large": _bert_large, "recommender": _recommender}
NAMES = tuple(_SHAPES)

# The default durations of a backward pass. ResNet-50 needs 4.1e9 multiplications per image in the forward pass, and
# twice as many in the backward pass. So 32 images in 40 ms are 13 TFLOP/s. At this rate, BERT-large takes 380 ms for 32
# sequences of 128 words. The recommender computes very little; its cost is the time per tensor.
BACKWARD_MS = {"resnet50": 40.0, "bert-large": 380.0, "recommender": 4.0}


def counts(name: str) -> list[int]:
    """Returns the number of elements of each tensor, the last layer first."""
    return [prod(shape) for shape in _SHAPES[name]()][::-1]


def shares(name: str) -> list[float]:
    """Returns each tensor's share of the backward pass. The layers of such models take about the same time (He et al.,
    section 3.3), so all weights have equal shares. Tensors of one dimension (biases, normalisations) have no share."""
    shapes = list(_SHAPES[name]())[::-1]
    weights = sum(len(shape) > 1 for shape in shapes)
    return [1 / weights if len(shape) > 1 else 0.0 for shape in shapes]

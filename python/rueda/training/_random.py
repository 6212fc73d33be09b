# SPDX-License-Identifier: Apache-2.0
# SPDX-FileCopyrightText: 2026 The Rueda authors
"""The random numbers of ``rueda/training/random.hpp``, so that samplers in Python and C++ make the same permutations."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def _split_mix(state: int) -> tuple[int, int]:
    """SplitMix64 (Steele, Lea and Flood 2014). Returns the next state and the number."""
    state = (state + 0x9E3779B97F4A7C15) & _MASK
    z = state
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return state, z ^ (z >> 31)


def initial_state(seed: int, stream: int) -> tuple[int, int, int, int]:
    """Returns the state of xoshiro256** for a seed and a stream."""
    mixed = _split_mix(seed & _MASK)[1] ^ (stream & _MASK)
    words = []
    for _ in range(4):
        mixed, word = _split_mix(mixed)
        words.append(word)
    return words[0], words[1], words[2], words[3]


def permutation(count: int, seed: int, stream: int) -> list[int]:
    """Returns the numbers 0 … count − 1 in a random order: Fisher and Yates' shuffle with xoshiro256** (Blackman and
    Vigna 2018). The generator is written out in the loop, because a function call would take longer than the generator
    itself.
    """
    a, b, c, d = initial_state(seed, stream)
    order = list(range(count))
    for left in range(count, 1, -1):
        # `value % left` must give each number with the same probability, so values above the limit are discarded.
        limit = _MASK - (_MASK % left + 1) % left
        while True:
            five = (b * 5) & _MASK
            value = ((((five << 7) & _MASK) | (five >> 57)) * 9) & _MASK
            shifted = (b << 17) & _MASK
            c ^= a
            d ^= b
            b ^= c
            a ^= d
            c ^= shifted
            d = ((d << 45) & _MASK) | (d >> 19)
            if value <= limit:
                break
        other = value % left
        order[left - 1], order[other] = order[other], order[left - 1]
    return order

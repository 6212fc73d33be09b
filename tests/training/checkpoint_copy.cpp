// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Reads a checkpoint and writes it to another file, for test_interchange.py. Usage: checkpoint_copy FROM TO
#include <cstdio>

#include "rueda/training/checkpoint.hpp"

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fputs("usage: checkpoint_copy FROM TO\n", stderr);
        return 2;
    }
    try {
        const rueda::training::Checkpoint from(argv[1]);
        std::vector<std::vector<char>> memory;
        std::vector<rueda::training::NamedTensor> tensors;
        for (const auto& info : from.tensors()) {
            memory.emplace_back(static_cast<std::size_t>(info.shape.elements()) * rueda::size_of(info.dtype));
            tensors.push_back({info.name, {memory.back().data(), info.dtype, info.shape}});
        }
        from.read(tensors);
        rueda::training::write_checkpoint(argv[2], tensors, from.metadata());
    } catch (const rueda::Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}

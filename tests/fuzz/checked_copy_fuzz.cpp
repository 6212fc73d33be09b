// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the reader of a cached copy of a file, which consists of blocks with checksums. The first byte chooses how
// many bytes are read at a time.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/sources/checked_copy.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using fuzz::expect;

struct ReadCopy {
    std::string bytes;
    std::string problem;
};

/// Reads a copy to its end, or to the first damaged block.
ReadCopy read_copy(const std::shared_ptr<const std::string>& file, std::size_t piece) {
    const auto stream = read_checked(open_memory(file), "input");
    ReadCopy copy;
    std::vector<std::byte> buffer(piece);
    while (true) {
        const auto count = stream->read(buffer);
        if (!count.is_ok()) {
            copy.problem = count.status().message();
            expect(!copy.problem.empty());
            return copy;
        }
        expect(count.value() <= piece);
        if (count.value() == 0) {
            return copy;
        }
        copy.bytes.append(reinterpret_cast<const char*>(buffer.data()), count.value());
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    const auto file = std::make_shared<const std::string>(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    const ReadCopy whole = read_copy(file, size);
    const ReadCopy pieces = read_copy(file, 1 + std::size_t{bytes[0]});
    expect(whole.problem == pieces.problem);
    // A long read covers several blocks. If one of them is damaged, the read returns no bytes, not even those of the
    // blocks before.
    expect(whole.problem.empty() ? whole.bytes == pieces.bytes : whole.bytes.size() <= pieces.bytes.size());
    expect(whole.bytes.size() < size);
    return 0;
}

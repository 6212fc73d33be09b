// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/process_sets/set_changes.hpp"

#include <fmt/ranges.h>

#include <utility>

#include "collectives/wire.hpp"

namespace rueda::core {

using collectives::Bytes;

Bytes encode(SetChange change, std::span<const int> numbers) {
    collectives::WireWriter writer;
    writer.number(static_cast<std::uint8_t>(change));
    for (const int number : numbers) {
        writer.number(std::int32_t{number});
    }
    return std::move(writer).take();
}

std::string describe_set_change(std::span<const std::byte> bytes) {
    collectives::WireReader reader(bytes);
    const auto change = static_cast<SetChange>(reader.number<std::uint8_t>());
    std::vector<std::int32_t> numbers;
    while (reader.intact() && !reader.complete()) {
        numbers.push_back(reader.number<std::int32_t>());
    }
    if (reader.intact()) {
        switch (change) {
            case SetChange::add:
                return fmt::format("add_process_set([{}])", fmt::join(numbers, ", "));
            case SetChange::add_among:
                return fmt::format("add_process_set_among([{}])", fmt::join(numbers, ", "));
            case SetChange::remove:
                return fmt::format("remove_process_set({})", fmt::join(numbers, ", "));
        }
    }
    return "something that no working rank asks for";
}

Result<std::vector<Bytes>> split_by_rank(std::span<const std::byte> joined, int ranks) {
    collectives::WireReader reader(joined);
    std::vector<Bytes> all;
    for (int rank = 0; rank < ranks; ++rank) {
        const auto bytes = reader.take(reader.number<std::uint32_t>());
        all.emplace_back(bytes.begin(), bytes.end());
    }
    if (!reader.complete()) {
        return failure(ErrorCode::internal,
                       "the ranks exchanged {} bytes about process sets that no working rank "
                       "writes",
                       joined.size());
    }
    return all;
}

Result<std::vector<Bytes>> split_by_named_rank(std::span<const std::byte> joined, int ranks) {
    collectives::WireReader reader(joined);
    std::vector<Bytes> all(static_cast<std::size_t>(ranks));
    while (reader.intact() && !reader.complete()) {
        const auto rank = reader.number<std::uint32_t>();
        const auto bytes = reader.take(reader.number<std::uint32_t>());
        if (rank < all.size()) {
            all[rank].assign(bytes.begin(), bytes.end());
        }
    }
    if (!reader.complete()) {
        return failure(ErrorCode::internal,
                       "the members of a process set exchanged {} bytes that no working rank "
                       "writes",
                       joined.size());
    }
    return all;
}

}  // namespace rueda::core

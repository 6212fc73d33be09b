// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/negotiation/metadata.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/text.hpp"

namespace rueda::core {
namespace {

struct Field {
    const char* name;
    std::function<std::string(const Metadata&)> value;
};

std::string shape_text(const Metadata& metadata) {
    std::string text = "[";
    for (int i = 0; i < metadata.ndim; ++i) {
        text += i == 0 ? "" : ", ";
        text += metadata.shape[i] == Metadata::kAnyExtent ? "any" : std::to_string(metadata.shape[i]);
    }
    return text + "]";
}

/// Says where the caller's tensors are.
const char* place_of(const Metadata& metadata) {
    return metadata.device == kRowsOfDevice ? name_of(DeviceType::cuda)
                                            : name_of(static_cast<DeviceType>(metadata.device));
}

/// Says who allocates the output. Errors name this difference if two ranks have tensors on a GPU, but only one of them
/// first exchanges the numbers of rows. An exchange has a dtype and a shape of its own, so an error about them would
/// mislead the user.
const char* call_of(const Metadata& metadata) {
    return metadata.device == kRowsOfDevice ? "rueda.torch, after an exchange of the numbers of rows" : "the caller";
}

/// All fields, in the order in which they are compared. Errors name only the first field that differs, because a
/// difference in one field often causes differences in the fields after it.
const std::vector<Field>& fields() {
    static const std::vector<Field> all = {
        {"the operation",
         [](const Metadata& m) { return std::string(name_of(static_cast<collectives::Operation>(m.operation))); }},
        {"the device", [](const Metadata& m) { return std::string(place_of(m)); }},
        {"who allocates the output", [](const Metadata& m) { return std::string(call_of(m)); }},
        {"the dtype", [](const Metadata& m) { return std::string(name_of(static_cast<DType>(m.dtype))); }},
        {"the shape", shape_text},
        {"the reduce operation",
         [](const Metadata& m) { return std::string(name_of(static_cast<ReduceOp>(m.reduce_op))); }},
        {"the root rank", [](const Metadata& m) { return std::to_string(m.root); }},
        {"the prescale factor", [](const Metadata& m) { return fmt::format("{}", m.prescale); }},
        {"the postscale factor", [](const Metadata& m) { return fmt::format("{}", m.postscale); }},
        {"the process set", [](const Metadata& m) { return std::to_string(m.process_set); }},
        {"the compression",
         [](const Metadata& m) { return std::string(name_of(static_cast<Compression>(m.compression))); }},
    };
    return all;
}

struct ValueOfRanks {
    std::string value;
    std::vector<std::int32_t> ranks;
};

/// Returns a text such as "ranks 0-2: [3, 4]; rank 3: [3, 5]". The value of the lowest rank comes first. The result is
/// "" if all ranks agree.
std::string differing_values(const Field& field, std::span<const MetadataOfRanks> groups) {
    std::map<std::string, std::vector<std::int32_t>> ranks_of;
    for (const MetadataOfRanks& group : groups) {
        std::vector<std::int32_t>& ranks = ranks_of[field.value(group.metadata)];
        ranks.insert(ranks.end(), group.ranks.begin(), group.ranks.end());
    }
    if (ranks_of.size() < 2) {
        return {};
    }
    std::vector<ValueOfRanks> values;
    for (auto& [value, ranks] : ranks_of) {
        std::sort(ranks.begin(), ranks.end());
        values.push_back({value, std::move(ranks)});
    }
    std::sort(values.begin(), values.end(),
              [](const ValueOfRanks& a, const ValueOfRanks& b) { return a.ranks.front() < b.ranks.front(); });
    std::string text;
    for (const ValueOfRanks& value : values) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", base::format_ranks(value.ranks), value.value);
    }
    return text;
}

/// Returns a text with all fields about which ranks can disagree, except default values. Example: "allreduce float32
/// [3, 4], sum".
std::string description_of(const Metadata& metadata) {
    const auto operation = static_cast<collectives::Operation>(metadata.operation);
    std::string text = name_of(operation);
    if (operation == collectives::Operation::barrier) {
        return text;
    }
    if (metadata.device == kRowsOfDevice) {
        // In an exchange of numbers of rows, `dtype` and `shape` are not those of the caller's tensor. So they are left
        // out.
        return fmt::format("{} of a tensor on {}", text, place_of(metadata));
    }
    text += fmt::format(" {} {}", name_of(static_cast<DType>(metadata.dtype)), shape_text(metadata));
    if (collectives::is_reduction(operation)) {
        text += fmt::format(", {}", name_of(static_cast<ReduceOp>(metadata.reduce_op)));
        text += metadata.prescale != 1 ? fmt::format(", prescale factor {}", metadata.prescale) : "";
        text += metadata.postscale != 1 ? fmt::format(", postscale factor {}", metadata.postscale) : "";
    }
    if (has_root(operation)) {
        text += fmt::format(", root rank {}", metadata.root);
    }
    if (metadata.compression != 0) {
        text += fmt::format(", compression {}", name_of(static_cast<Compression>(metadata.compression)));
    }
    if (metadata.device != 0) {
        text += fmt::format(", on {}", place_of(metadata));
    }
    return text;
}

/// Replaces ranks of the process set by their numbers in the job.
void rename_ranks(std::vector<MetadataOfRanks>& groups, std::span<const std::int32_t> job_ranks) {
    for (MetadataOfRanks& group : groups) {
        if (group.metadata.root_is_foreign == 0) {
            group.metadata.root = rank_in_job(group.metadata.root, job_ranks);
        }
        for (std::int32_t& rank : group.ranks) {
            rank = rank_in_job(rank, job_ranks);
        }
    }
}

/// Returns the first field that differs between the groups, or null if no field differs.
const Field* differing_field(std::span<const MetadataOfRanks> groups) {
    const auto found = std::find_if(fields().begin(), fields().end(),
                                    [&](const Field& field) { return !differing_values(field, groups).empty(); });
    return found != fields().end() ? &*found : nullptr;
}

}  // namespace

bool agree(const Metadata& a, const Metadata& b) {
    return std::memcmp(&a, &b, offsetof(Metadata, shape)) == 0 &&
           std::memcmp(a.shape, b.shape, sizeof(std::int64_t) * a.ndim) == 0;
}

std::uint64_t signature_of(const Metadata& metadata) {
    return XXH3_64bits(&metadata, offsetof(Metadata, shape) + sizeof(std::int64_t) * metadata.ndim);
}

std::uint64_t bytes_of(const Metadata& metadata) {
    std::uint64_t bytes = size_of(static_cast<DType>(metadata.dtype));
    for (int i = 0; i < metadata.ndim; ++i) {
        bytes *= metadata.shape[i] == Metadata::kAnyExtent ? 1 : static_cast<std::uint64_t>(metadata.shape[i]);
    }
    return bytes;
}

bool is_plausible(const Metadata& metadata) {
    if (metadata.operation > static_cast<std::uint8_t>(collectives::kLastOperation) || metadata.dtype >= kDTypeCount ||
        metadata.reduce_op > static_cast<std::uint8_t>(ReduceOp::product) || metadata.ndim > RUEDA_MAX_DIMENSIONS ||
        metadata.compression > static_cast<std::uint16_t>(Compression::bf16) || metadata.device > kRowsOfDevice) {
        return false;
    }
    const auto operation = static_cast<collectives::Operation>(metadata.operation);
    if (metadata.device == kRowsOfDevice && operation != collectives::Operation::allgather &&
        operation != collectives::Operation::alltoall) {
        return false;
    }
    if (metadata.root_is_foreign > (has_root(operation) ? 1 : 0) ||
        (operation == collectives::Operation::group && metadata.ndim == 0)) {
        return false;
    }
    for (int i = 0; i < metadata.ndim; ++i) {
        if (metadata.shape[i] < 0 && !(i == 0 && metadata.shape[i] == Metadata::kAnyExtent)) {
            return false;
        }
    }
    return true;
}

Status mismatch_of(std::string_view name, std::span<const Metadata> by_rank, std::span<const std::int32_t> job_ranks) {
    std::vector<MetadataOfRanks> groups;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        groups.push_back({by_rank[rank], {static_cast<std::int32_t>(rank)}});
    }
    return mismatch_of(name, std::move(groups), job_ranks);
}

Status mismatch_of(std::string_view name, std::vector<MetadataOfRanks> groups,
                   std::span<const std::int32_t> job_ranks) {
    rename_ranks(groups, job_ranks);
    const Field* const field = differing_field(groups);
    return field != nullptr ? failure(ErrorCode::mismatch, "tensor '{}': the ranks disagree about {}: {}", name,
                                      field->name, differing_values(*field, groups))
                            : failure(ErrorCode::mismatch, "tensor '{}': the ranks disagree", name);
}

Status mismatch_of_unnamed(std::uint64_t call, std::vector<MetadataOfRanks> groups,
                           std::span<const std::int32_t> job_ranks) {
    rename_ranks(groups, job_ranks);
    const Field* const field = differing_field(groups);
    return failure(ErrorCode::mismatch,
                   "{}: the ranks disagree about {}: {}; operations without a name match by the order of the calls: if "
                   "a rank has made one call more or less than the others, names or RUEDA_CALL_SITES=1 show which call",
                   describe_unnamed(call), field != nullptr ? field->name : "it",
                   differing_values({"", &description_of}, groups));
}

bool has_root(collectives::Operation operation) {
    return operation == collectives::Operation::broadcast || operation == collectives::Operation::gather ||
           operation == collectives::Operation::scatter || operation == collectives::Operation::reduce;
}

std::string describe_unnamed(std::uint64_t call) {
    constexpr const char* kEndings[] = {"th", "st", "nd", "rd"};
    const bool teen = call / 10 % 10 == 1;
    return fmt::format("the {}{} unnamed operation of this process set", call,
                       teen || call % 10 > 3 ? "th" : kEndings[call % 10]);
}

}  // namespace rueda::core

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/packing.hpp"

#include <algorithm>

#include "ops/cuda/kernel_arguments.hpp"

namespace rueda::collectives::cuda {
namespace {

bool is_packable(const Segment& tensor) { return tensor.count > 0 && tensor.bytes() <= kMostPackedBytes; }

}  // namespace

bool are_alike(const NcclCall& one, const NcclCall& other) {
    return one.kind == other.kind && one.type == other.type && one.reduction == other.reduction &&
           one.factor == other.factor;
}

std::int64_t gain_of_packing(const std::vector<Pack>& packs) {
    std::uint64_t tensors = 0;
    std::uint64_t bytes = 0;
    std::uint64_t calls = 0;
    for (const Pack& pack : packs) {
        if (pack.tensors > 1) {
            tensors += pack.tensors;
            bytes += pack.bytes;
            ++calls;
        }
    }
    const std::uint64_t launches = 2 * ((tensors + ops::cuda::kMostItems - 1) / ops::cuda::kMostItems);
    const std::uint64_t saved = (tensors - calls) * kCallNanoseconds;
    const std::uint64_t cost = launches * kLaunchNanoseconds + bytes * kAccessesPerByte / kBytesPerNanosecond;
    return static_cast<std::int64_t>(saved) - static_cast<std::int64_t>(cost);
}

Pack* Packs::find(const NcclCall& call) {
    const auto found =
        std::find_if(packs_.begin(), packs_.end(), [&](const Pack& pack) { return are_alike(pack.call, call); });
    return found == packs_.end() ? nullptr : &*found;
}

void Packs::add(const NcclCall& call, const Segment& tensor) {
    if (!is_packable(tensor)) {
        return;
    }
    const std::size_t bytes = packed_size(tensor.bytes());
    Pack* pack = find(call);
    if (pack == nullptr) {
        pack = &packs_.emplace_back(Pack{.call = call});
    }
    ++pack->tensors;
    pack->bytes += bytes;
    // The division has no remainder: `bytes` is a multiple of 16, and 16 bytes hold a whole number of elements.
    pack->call.count += bytes / size_of(tensor.dtype);
}

void Packs::choose() {
    if (gain_of_packing(packs_) <= 0) {
        packs_.clear();
    }
    std::erase_if(packs_, [](const Pack& pack) { return pack.tensors == 1; });
}

std::optional<std::size_t> Packs::take(const NcclCall& call, const Segment& tensor) {
    Pack* const pack = is_packable(tensor) ? find(call) : nullptr;
    if (pack == nullptr) {
        return std::nullopt;
    }
    const std::size_t place = pack->next;
    pack->next += packed_size(tensor.bytes());
    return place;
}

}  // namespace rueda::collectives::cuda

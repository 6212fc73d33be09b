// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/offer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <type_traits>
#include <vector>

#include "base/text.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"

namespace rueda::collectives::cuda {
namespace {

constexpr std::uint32_t kOfferMagic = 0x6e637561;
constexpr std::uint32_t kOfferVersion = 1;
constexpr std::uint32_t kSharesDevice = 1;
constexpr std::uint32_t kHasId = 2;
constexpr std::uint32_t kHasKernels = 4;

/// The bytes of an offer. All fields have fixed widths, and there is no padding.
struct OfferBytes {
    std::uint32_t magic;
    std::uint32_t version;  // of this layout
    std::uint32_t member;
    std::uint32_t members;
    std::int32_t device;
    std::int32_t nccl_version;
    std::uint32_t flags;
    std::uint32_t refusal_bytes;
    std::uint64_t host;
    std::uint64_t process;
    CudaUuid uuid;
    NcclUniqueId id;
    std::array<char, kMostRefusal> refusal;
    std::array<std::byte, 64> reserved;
};
static_assert(sizeof(OfferBytes) == DeviceCommunicator::kOfferBytes);
static_assert(std::is_trivially_copyable_v<OfferBytes> && std::has_unique_object_representations_v<OfferBytes>);

/// The key by which two members' devices are compared.
using UuidKey = std::array<char, sizeof(CudaUuid::bytes)>;
UuidKey key_of(const CudaUuid& uuid) {
    UuidKey key{};
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), key.begin());
    return key;
}

Status check_refusals(const std::vector<Participant>& all) {
    std::vector<std::string> reasons;
    for (const Participant& one : all) {
        if (!one.refusal.empty() && reasons.size() < 4) {  // four reasons are enough to act
            reasons.push_back(fmt::format("member {}: {}", one.member, one.refusal));
        }
    }
    if (reasons.empty()) {
        return {};
    }
    return failure(ErrorCode::unsupported,
                   "NCCL cannot connect the GPUs of this process set, because not all members "
                   "can take part: {}",
                   fmt::join(reasons, "; "));
}

Status check_versions(const std::vector<Participant>& all) {
    for (const Participant& one : all) {
        if (one.nccl_version != all[0].nccl_version) {
            return failure(ErrorCode::unsupported,
                           "NCCL cannot connect the GPUs of this process set: member 0 has NCCL {}, but member {} has "
                           "NCCL {}; all members need the same version, so install it, or name it by "
                           "RUEDA_NCCL_LIBRARY",
                           name_of_nccl_version(all[0].nccl_version), one.member,
                           name_of_nccl_version(one.nccl_version));
        }
    }
    return {};
}

/// Two members on one device need a version of NCCL that allows it, the user's consent, and separate processes: members
/// in one process share one stream of the device, in which each would wait for the work of the other behind it.
Status check_devices(const std::vector<Participant>& all) {
    std::map<UuidKey, const Participant*> users;
    for (const Participant& one : all) {
        const auto [place, is_first] = users.emplace(key_of(one.uuid), &one);
        if (is_first) {
            continue;
        }
        const Participant& other = *place->second;
        const std::string pair =
            fmt::format("members {} (GPU {} of its process) and {} (GPU {} of its process) use the same device {}",
                        other.member, other.device, one.member, one.device, name_of_uuid(one.uuid));
        if (other.host == one.host && other.process == one.process) {
            return failure(ErrorCode::unsupported,
                           "NCCL cannot connect {}, in one process; use another device for each "
                           "member",
                           pair);
        }
        if (all[0].nccl_version < kNcclSharesDevices) {
            return failure(ErrorCode::unsupported,
                           "NCCL {} cannot connect {}; start at most one rank for each device, or install NCCL {} or "
                           "newer and set NCCL_MULTI_RANK_GPU_ENABLE=1 on all ranks",
                           name_of_nccl_version(all[0].nccl_version), pair, name_of_nccl_version(kNcclSharesDevices));
        }
        if (!one.shares_device || !other.shares_device) {
            return failure(ErrorCode::unsupported,
                           "NCCL {} connects {} only if NCCL_MULTI_RANK_GPU_ENABLE=1 is set on all ranks; set it, or "
                           "start at most one rank for each device",
                           name_of_nccl_version(all[0].nccl_version), pair);
        }
    }
    return {};
}

}  // namespace

std::string name_of_uuid(const CudaUuid& uuid) {
    std::string text = "GPU-";
    for (std::size_t i = 0; i < sizeof(uuid.bytes); ++i) {
        text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                            static_cast<unsigned char>(uuid.bytes[i]));
    }
    return text;
}

DeviceCommunicator::Offer write_offer(const Participant& participant) {
    OfferBytes bytes{};
    bytes.magic = kOfferMagic;
    bytes.version = kOfferVersion;
    bytes.member = participant.member;
    bytes.members = participant.members;
    bytes.device = participant.device;
    bytes.nccl_version = participant.nccl_version;
    bytes.flags = (participant.shares_device ? kSharesDevice : 0) | (participant.has_id ? kHasId : 0) |
                  (participant.has_kernels ? kHasKernels : 0);
    bytes.refusal_bytes = static_cast<std::uint32_t>(std::min(participant.refusal.size(), kMostRefusal));
    bytes.host = participant.host;
    bytes.process = participant.process;
    bytes.uuid = participant.uuid;
    bytes.id = participant.id;
    std::memcpy(bytes.refusal.data(), participant.refusal.data(), bytes.refusal_bytes);
    DeviceCommunicator::Offer offer;
    std::memcpy(offer.data(), &bytes, sizeof(bytes));
    return offer;
}

Result<Participant> read_offer(const DeviceCommunicator::Offer& offer, std::uint32_t member, std::uint32_t members) {
    OfferBytes bytes{};
    std::memcpy(&bytes, offer.data(), sizeof(bytes));
    const auto wrong = [member](const char* what) {
        return failure(ErrorCode::mismatch,
                       "the offer of member {} for its GPU has {}; expected an offer of the same version of Rueda, so "
                       "install the same version on all hosts",
                       member, what);
    };
    if (bytes.magic != kOfferMagic || bytes.version != kOfferVersion) {
        return wrong("another format");
    }
    if (bytes.member != member || bytes.members != members) {
        return wrong("another member's number");
    }
    if ((bytes.flags & ~(kSharesDevice | kHasId | kHasKernels)) != 0 || bytes.refusal_bytes > kMostRefusal ||
        std::any_of(bytes.reserved.begin(), bytes.reserved.end(), [](std::byte b) { return b != std::byte{0}; })) {
        return wrong("fields that have no meaning");
    }
    if (bytes.refusal_bytes == 0 && (bytes.device < 0 || bytes.nccl_version <= 0)) {
        return wrong("no device or no version of NCCL");
    }
    if (((bytes.flags & kHasId) != 0) != (member == 0 && bytes.refusal_bytes == 0)) {
        return wrong("the identifier of the communicator missing or in the wrong place");
    }
    return Participant{.member = member,
                       .members = members,
                       .device = bytes.device,
                       .nccl_version = bytes.nccl_version,
                       .host = bytes.host,
                       .process = bytes.process,
                       .shares_device = (bytes.flags & kSharesDevice) != 0,
                       .has_kernels = (bytes.flags & kHasKernels) != 0,
                       .has_id = (bytes.flags & kHasId) != 0,
                       .uuid = bytes.uuid,
                       .id = bytes.id,
                       .refusal = base::printable({bytes.refusal.data(), bytes.refusal_bytes})};
}

Result<NcclUniqueId> decide(std::span<const DeviceCommunicator::Offer> offers) {
    std::vector<Participant> all;
    all.reserve(offers.size());
    for (std::size_t member = 0; member < offers.size(); ++member) {
        auto one =
            read_offer(offers[member], static_cast<std::uint32_t>(member), static_cast<std::uint32_t>(offers.size()));
        RUEDA_RETURN_IF_FAILED(one.status());
        all.push_back(std::move(one).value());
    }
    RUEDA_RETURN_IF_FAILED(check_refusals(all));
    RUEDA_RETURN_IF_FAILED(check_versions(all));
    RUEDA_RETURN_IF_FAILED(check_devices(all));
    return all[0].id;
}

bool all_have_kernels(std::span<const DeviceCommunicator::Offer> offers) {
    std::uint32_t member = 0;
    return std::all_of(offers.begin(), offers.end(), [&](const DeviceCommunicator::Offer& offer) {
        const auto one = read_offer(offer, member++, static_cast<std::uint32_t>(offers.size()));
        return one.is_ok() && one.value().has_kernels;
    });
}

}  // namespace rueda::collectives::cuda

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/offer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "collectives/cuda/nccl/load_nccl.hpp"

namespace rueda::collectives::cuda {
namespace {

constexpr std::uint32_t kOfferMagic = 0x6e637561;
constexpr std::uint32_t kOfferVersion = 3;
constexpr std::uint32_t kSharesDevice = 1;
constexpr std::uint32_t kHasId = 2;
constexpr std::uint32_t kHasKernels = 4;
constexpr std::uint32_t kHasOtherSets = 8;
constexpr std::uint32_t kAllFlags = kSharesDevice | kHasId | kHasKernels | kHasOtherSets;

/// The bytes of an offer. All fields have fixed widths, and there is no padding.
struct OfferBytes {
    std::uint32_t magic;
    std::uint32_t version;  // the version of this layout
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
    std::uint32_t path;
    std::int32_t unordered_set;
    std::array<std::byte, 56> reserved;
};
static_assert(sizeof(OfferBytes) == DeviceCommunicator::kOfferBytes);
static_assert(std::is_trivially_copyable_v<OfferBytes> && std::has_unique_object_representations_v<OfferBytes>);

/// A device's UUID, in a type that can be compared. Members with the same key use the same device.
using UuidKey = std::array<char, sizeof(CudaUuid::bytes)>;
constexpr std::array kPathNames = {"auto", "nccl", "host", "ipc"};
const char* name_of(DevicePath path) { return kPathNames.at(static_cast<std::size_t>(path)); }

UuidKey key_of(const CudaUuid& uuid) {
    UuidKey key{};
    std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), key.begin());
    return key;
}

/// The offers of all members, and the names that messages use for the members.
struct Members {
    const std::vector<Participant>& all;
    std::span<const std::int32_t> ranks;

    [[nodiscard]] std::int32_t rank_of(std::size_t member) const {
        return ranks.size() == all.size() ? ranks[member] : static_cast<std::int32_t>(member);
    }
};

/// All members must have the same value of RUEDA_GPU_PATH, because all of them must move a tensor in the same way.
Status check_paths(const Members& members) {
    for (std::size_t member = 1; member < members.all.size(); ++member) {
        if (members.all[member].path != members.all[0].path) {
            return failure(ErrorCode::mismatch,
                           "the ranks of this process set disagree about RUEDA_GPU_PATH: rank {} has '{}', but rank {} "
                           "has '{}'; give all ranks the same value",
                           members.rank_of(0), name_of(members.all[0].path), members.rank_of(member),
                           name_of(members.all[member].path));
        }
    }
    return {};
}

Status check_refusals(const Members& members) {
    std::vector<std::string> reasons;
    for (const Participant& one : members.all) {
        // The message lists at most four reasons, which are enough for the user to act.
        if (!one.refusal.empty() && reasons.size() < 4) {
            reasons.push_back(fmt::format("rank {}: {}", members.rank_of(one.member), one.refusal));
        }
    }
    if (reasons.empty()) {
        return {};
    }
    return failure(ErrorCode::unsupported,
                   "NCCL cannot connect the GPUs of this process set, because not all ranks can take part: {}",
                   fmt::join(reasons, "; "));
}

Status check_versions(const Members& members) {
    const std::int32_t version = members.all[0].nccl_version;
    for (const Participant& one : members.all) {
        if (one.nccl_version != version) {
            return failure(ErrorCode::unsupported,
                           "NCCL cannot connect the GPUs of this process set: rank {} has NCCL {}, but rank {} has "
                           "NCCL {}; all ranks need the same version, so install it, or name it by RUEDA_NCCL_LIBRARY",
                           members.rank_of(0), name_of_nccl_version(version), members.rank_of(one.member),
                           name_of_nccl_version(one.nccl_version));
        }
    }
    return {};
}

/// Two members may share a device under three conditions: the version of NCCL allows this, the user has agreed, and the
/// members are separate processes. Members in one process share one stream of the device. The work of the first member
/// would wait for work of the second member. That work comes later in the same stream, so the wait would never end.
Status check_pair(const Members& members, const Participant& other, const Participant& one) {
    const std::int32_t version = members.all[0].nccl_version;
    const std::string pair = fmt::format("ranks {} (its GPU {}) and {} (its GPU {}), which share the device {}",
                                         members.rank_of(other.member), other.device, members.rank_of(one.member),
                                         one.device, name_of_uuid(one.uuid));
    if (other.host == one.host && other.process == one.process) {
        return failure(ErrorCode::unsupported,
                       "NCCL cannot connect {} in one process; use another device for each rank", pair);
    }
    if (version < kNcclSharesDevices) {
        return failure(ErrorCode::unsupported,
                       "NCCL {} cannot connect {}; start at most one rank for each device, or install NCCL {} or newer "
                       "and set NCCL_MULTI_RANK_GPU_ENABLE=1 on all ranks",
                       name_of_nccl_version(version), pair, name_of_nccl_version(kNcclSharesDevices));
    }
    if (!one.shares_device || !other.shares_device) {
        return failure(
            ErrorCode::unsupported,
            "NCCL {} connects {}, only if NCCL_MULTI_RANK_GPU_ENABLE=1 is set on all ranks; set it, or start "
            "at most one rank for each device",
            name_of_nccl_version(version), pair);
    }
    return {};
}

bool share_devices(const Members& members) {
    std::set<UuidKey> devices;
    return !std::all_of(members.all.begin(), members.all.end(),
                        [&](const Participant& one) { return devices.insert(key_of(one.uuid)).second; });
}

Status check_devices(const Members& members) {
    std::map<UuidKey, const Participant*> users;
    for (const Participant& one : members.all) {
        const auto [place, is_first] = users.emplace(key_of(one.uuid), &one);
        if (!is_first) {
            RUEDA_RETURN_IF_FAILED(check_pair(members, *place->second, one));
        }
    }
    return {};
}

Status check_other_sets(const Members& members) {
    for (const Participant& one : members.all) {
        if (one.unordered_set >= 0) {
            return failure(ErrorCode::unsupported,
                           "rank {} uses NCCL in process set {}, whose operations have no order with those of other "
                           "sets, because it was the only set on GPUs when it connected; add all process sets before "
                           "the first operation on a GPU",
                           members.rank_of(one.member), one.unordered_set);
        }
    }
    return {};
}

/// Whether NCCL can connect the members. This function does not look at the members' other process sets.
Status check_nccl(const Members& members) {
    RUEDA_RETURN_IF_FAILED(check_refusals(members));
    RUEDA_RETURN_IF_FAILED(check_versions(members));
    return check_devices(members);
}

/// Whether the members can share device memory by CUDA IPC. The answer uses only what their offers say. Two members of
/// one process cannot, because a process cannot open its own memory (CUDA Driver API, cuIpcOpenMemHandle).
Status check_ipc(const Members& members) {
    if (members.all.size() < 2) {
        return failure(ErrorCode::unsupported, "the process set has one rank");
    }
    if (members.all.size() > kMostIpcMembers) {
        return failure(ErrorCode::unsupported, "the process set has {} ranks, and at most {} are possible",
                       members.all.size(), kMostIpcMembers);
    }
    std::map<std::uint64_t, std::uint32_t> processes;
    for (const Participant& one : members.all) {
        if (one.host != members.all[0].host) {
            return failure(ErrorCode::unsupported, "ranks {} and {} are on different hosts", members.rank_of(0),
                           members.rank_of(one.member));
        }
        if (const auto [other, is_first] = processes.emplace(one.process, one.member); !is_first) {
            return failure(ErrorCode::unsupported, "ranks {} and {} are in one process", members.rank_of(other->second),
                           members.rank_of(one.member));
        }
        if (!one.has_kernels) {
            return failure(ErrorCode::unsupported, "rank {} has no kernels of Rueda", members.rank_of(one.member));
        }
    }
    return {};
}

/// Returns the decision for the case that NCCL is not used.
Decision without_nccl(const Members& members, std::string reason) {
    const Status ipc = check_ipc(members);
    return {.uses_ipc = ipc.is_ok(), .reason = std::move(reason), .ipc_refusal = ipc.message()};
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
                  (participant.has_kernels ? kHasKernels : 0) | (participant.has_other_sets ? kHasOtherSets : 0);
    bytes.refusal_bytes = static_cast<std::uint32_t>(std::min(participant.refusal.size(), kMostRefusal));
    bytes.host = participant.host;
    bytes.process = participant.process;
    bytes.uuid = participant.uuid;
    bytes.id = participant.id;
    bytes.path = static_cast<std::uint32_t>(participant.path);
    bytes.unordered_set = participant.unordered_set;
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
    if ((bytes.flags & ~kAllFlags) != 0 || bytes.refusal_bytes > kMostRefusal ||
        std::any_of(bytes.reserved.begin(), bytes.reserved.end(), [](std::byte b) { return b != std::byte{0}; })) {
        return wrong("fields that have no meaning");
    }
    if (bytes.path >= kPathNames.size() || bytes.unordered_set < -1) {
        return wrong("values that have no meaning");
    }
    const auto path = static_cast<DevicePath>(bytes.path);
    const bool has_nccl = allows_nccl(path) && bytes.refusal_bytes == 0;
    if ((bytes.refusal_bytes == 0 && bytes.device < 0) || (has_nccl && bytes.nccl_version <= 0)) {
        return wrong("no device or no version of NCCL");
    }
    if (((bytes.flags & kHasId) != 0) != (member == 0 && has_nccl)) {
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
                       .path = path,
                       .has_other_sets = (bytes.flags & kHasOtherSets) != 0,
                       .unordered_set = bytes.unordered_set,
                       .refusal = base::printable({bytes.refusal.data(), bytes.refusal_bytes})};
}

Result<Decision> decide(std::span<const DeviceCommunicator::Offer> offers, std::span<const std::int32_t> ranks) {
    std::vector<Participant> all;
    all.reserve(offers.size());
    for (std::size_t member = 0; member < offers.size(); ++member) {
        auto one =
            read_offer(offers[member], static_cast<std::uint32_t>(member), static_cast<std::uint32_t>(offers.size()));
        RUEDA_RETURN_IF_FAILED(one.status());
        all.push_back(std::move(one).value());
    }
    const Members members{all, ranks};
    RUEDA_RETURN_IF_FAILED(check_paths(members));
    if (all[0].path == DevicePath::host) {
        return Decision{.reason = "RUEDA_GPU_PATH is 'host'"};
    }
    if (all[0].path == DevicePath::ipc) {
        return without_nccl(members, "RUEDA_GPU_PATH is 'ipc'");
    }
    Status nccl = check_nccl(members);
    const bool may_change = nccl.is_ok();
    if (nccl.is_ok()) {
        nccl = check_other_sets(members);
    }
    if (nccl.is_ok()) {
        const bool has_order = all.size() > 1 && std::any_of(all.begin(), all.end(),
                                                             [](const Participant& one) { return one.has_other_sets; });
        return Decision{.uses_nccl = true,
                        .nccl_version = all[0].nccl_version,
                        .shares_devices = share_devices(members),
                        .has_order = has_order,
                        .id = all[0].id};
    }
    if (all[0].path == DevicePath::nccl) {
        return nccl;
    }
    std::string reason = nccl.message();
    if (may_change) {
        reason += ". Both sets use NCCL when each of them has executed some more batches";
    }
    Decision decision = without_nccl(members, std::move(reason));
    decision.may_change = may_change;
    return decision;
}

bool all_have_kernels(std::span<const DeviceCommunicator::Offer> offers) {
    std::uint32_t member = 0;
    return std::all_of(offers.begin(), offers.end(), [&](const DeviceCommunicator::Offer& offer) {
        const auto one = read_offer(offer, member++, static_cast<std::uint32_t>(offers.size()));
        return one.is_ok() && one.value().has_kernels;
    });
}

}  // namespace rueda::collectives::cuda

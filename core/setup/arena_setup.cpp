// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/setup/arena_setup.hpp"

#include <sys/mman.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstring>

#include "base/system/memory_limits.hpp"
#include "base/text.hpp"
#include "collectives/host/sockets/descriptor_exchange.hpp"
#include "core/negotiation/carried.hpp"
#include "core/setup/agreement.hpp"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace rueda::core {
namespace {

using collectives::Bytes;

constexpr std::uint64_t kLargestUsualChunk = 256 * base::kKiB;
// The smallest size of a chunk. With smaller chunks, the ranks would wait for each other more often, and these waits
// would cost more time than the caches save.
constexpr std::uint64_t kSmallestUsualChunk = 32 * base::kKiB;
// The size of a chunk on processors with core complexes. A cache line may take about 0.2 µs there from one core to
// another, so fewer waits save more time than smaller chunks save in the caches. The measurements are in
// docs/design/collectives.md ("Processors with core complexes"). Between hosts this size was not measured, so it is not
// used there.
constexpr std::uint64_t kUsualChunkOfCoreComplexes = 128 * base::kKiB;
constexpr std::uint64_t kSmallestChunk = 4 * base::kKiB;
constexpr std::uint64_t kHugePage = 2 * base::kMiB;

/// The number of attachments. An attachment is a buffer for a text or for first dimensions, to which a log entry can
/// refer. Only jobs on several hosts have attachments.
constexpr std::uint32_t kAttachments = 64;
/// The number of records (requests to the registrar) in a mailbox on several hosts. On several hosts, a rank posts a
/// record for each tensor that it announces as the last rank of its host. So this number is larger than the number on
/// one host.
constexpr std::uint32_t kMailboxRecords = 256;
constexpr std::uint64_t kTextBytes = 4 * base::kKiB;

/// The largest size of the ring buffer for messages from one rank to another. Four chunks fit into it, each of the size
/// that is copied fastest through the caches (collectives/host/tasks/copying.hpp). All rings to one rank together have
/// at most kRingsOfRank bytes, so with more than four ranks the rings are smaller. A page of a ring takes memory only
/// after its first use.
constexpr std::uint64_t kRingBytes = 256 * base::kKiB;
constexpr std::uint64_t kRingsOfRank = 1024 * base::kKiB;

std::uint64_t ring_bytes_of(std::uint32_t members) {
    return std::min(kRingBytes, std::bit_floor(kRingsOfRank / members));
}

/// The largest input that is sent with its announcement. To send it saves one or two waits for other ranks. With two
/// ranks, each cache line moves between the cores only once (NegotiationMemory::place_index()), and measurements showed
/// a gain up to 64 KiB; at 128 KiB some operations were slower. With more ranks, each rank reads the inputs of all
/// other ranks, so the gain ends at a smaller size (docs/design/collectives.md).
constexpr std::uint32_t kPayloadBytes = 8 * base::kKiB;
constexpr std::uint32_t kPayloadBytesOfTwo = 64 * base::kKiB;
constexpr std::uint32_t kPayloadSlots = 256;
constexpr std::uint64_t kPayloadMemory = 64 * base::kMiB;

/// Plans buffers for inputs of up to `payload_bytes` bytes, for as many slots as kPayloadMemory allows.
void plan_payloads(NegotiationExtent& extent, std::uint32_t payload_bytes) {
    extent.payload_bytes = payload_bytes;
    const std::uint64_t slots = kPayloadMemory / (std::uint64_t{2} * extent.members * payload_bytes);
    extent.payload_slots = std::min({kPayloadSlots, static_cast<std::uint32_t>(slots), extent.initial_slots});
}

/// Halves the memory of the buffers for inputs. As long as a buffer has more than kPayloadBytes, its size is halved;
/// after that, the number of buffers.
void shrink_payloads(NegotiationExtent& extent) {
    if (extent.payload_bytes > kPayloadBytes) {
        plan_payloads(extent, extent.payload_bytes / 2);
    } else {
        extent.payload_slots /= 2;
    }
}

/// The memory that the ranks of a host use for the negotiation, in a job with the initial number of slots.
std::uint64_t touched_negotiation_bytes(NegotiationExtent extent) {
    extent.slots = extent.initial_slots;
    extent.refusals_per_slot = 0;
    using Memory = NegotiationMemory<base::StdAtomics>;
    return Memory::bytes(extent) -
           // the table of splits is subtracted, because only alltoalls and scatters touch it
           Memory::splits_bytes(extent);
}

/// The address space to reserve for a rank's resident tensors. This is the configured limit, or the size of the
/// machine's memory if no limit is configured. The result is smaller if the address space of the process is limited.
std::uint64_t reservable_resident_bytes(const base::Config& config, std::uint32_t members) {
    struct sysinfo info {};
    sysinfo(&info);
    std::uint64_t bytes =
        config.resident_limit_bytes != 0 ? config.resident_limit_bytes : std::uint64_t{info.totalram} * info.mem_unit;
    const Result<base::MemoryLimits> limits = base::read_memory_limits();
    if (limits.is_ok() && limits.value().address_space_left_bytes != base::MemoryLimits::kUnlimited) {
        // Every rank maps the regions of all `members`, and half of the address space stays free for the program.
        bytes = std::min(bytes, limits.value().address_space_left_bytes / 2 / members);
    }
    return bytes / kHugePage * kHugePage;
}

/// Every rank gives several numbers. For each of them, returns the smallest value of all ranks.
template <std::size_t kCount>
Result<std::array<std::uint64_t, kCount>> smallest_of_all(collectives::ControlPlane& control_plane,
                                                          std::array<std::uint64_t, kCount> numbers) {
    Result<std::vector<Bytes>> all = control_plane.allgather(std::as_bytes(std::span(numbers)));
    RUEDA_RETURN_IF_FAILED(all.status());
    for (const Bytes& bytes : all.value()) {
        std::array<std::uint64_t, kCount> others{};
        if (bytes.size() != sizeof(others)) {
            return failure(ErrorCode::internal, "a rank announced its sizes for the arena with {} bytes instead of {}",
                           bytes.size(), sizeof(others));
        }
        std::memcpy(others.data(), bytes.data(), sizeof(others));
        for (std::size_t i = 0; i < kCount; ++i) {
            numbers[i] = std::min(numbers[i], others[i]);
        }
    }
    return numbers;
}

Status touch_own_cells(const collectives::Arena& arena, const NegotiationExtent& extent) {
    const std::uint64_t bytes = arena.plan().cell_bytes * arena.plan().cells_per_rank;
    // The ranks touch the negotiation tables later, when they announce names. But check_memory() already counts this
    // rank's share of these tables.
    const std::uint64_t tables = touched_negotiation_bytes(extent) / arena.plan().members;
    RUEDA_RETURN_IF_FAILED(base::check_memory(bytes + tables, "the arena"));
    // This madvise() touches the pages now, and fails if there is not enough memory. A later touch would raise a signal
    // in the middle of an operation. Kernels before 5.14 do not have MADV_POPULATE_WRITE. With them, only
    // check_memory() notices that memory is missing.
    if (madvise(arena.cell(arena.rank(), 0), bytes, MADV_POPULATE_WRITE) != 0 && errno != EINVAL) {
        return system_failure(ErrorCode::resource_exhausted,
                              fmt::format("touching {} of the arena", base::format_bytes(bytes)));
    }
    return {};
}

}  // namespace

Result<ArenaSizes> plan_arena(const base::Config& config, std::uint32_t members, const base::CacheSizes& caches,
                              std::uint64_t resident_bytes, std::uint32_t job_size) {
    ArenaSizes sizes;
    NegotiationExtent& extent = sizes.extent;
    extent.members = members;
    // The settings say how many slots there are for names. The slots for operations without a name are added here.
    extent.slots = extent.unnamed_slots + std::max(config.slots_max, 1U);
    extent.initial_slots = std::min(extent.unnamed_slots + std::max(config.slots, 1U), extent.slots);
    extent.call_sites = config.call_sites ? 1 : 0;
    const bool has_other_hosts = job_size > members;
    if (has_other_hosts) {
        extent.attachments = kAttachments;
        extent.mailbox_records = kMailboxRecords;
        const std::uint64_t rows = std::uint64_t{job_size} * sizeof(std::int64_t);
        // An attachment holds either the first dimensions of all ranks, or a text and the sizes of groups. There is at
        // most one size for each rank.
        extent.attachment_bytes = static_cast<std::uint32_t>(kTextBytes + (rows + 63) / 64 * 64);
        static_assert(kMostCarriedBytes <= kTextBytes);  // an attachment may also hold the result of an operation
        if (members <= kInlineMembers) {
            plan_payloads(extent, kMostCarriedBytes);
        }
    } else if (members > 1 && members <= kInlineMembers) {
        plan_payloads(extent, members == 2 ? kPayloadBytesOfTwo : kPayloadBytes);
    }

    collectives::ArenaPlan& plan = sizes.plan;
    plan.members = members;
    plan.cells_per_rank = config.cells_per_rank;
    plan.resident_bytes = resident_bytes;
    // Streaming stores are faster for outputs from 4 MiB on, except if the outputs of all ranks of the host together
    // fit into the L3 cache.
    plan.stream_from = std::max(plan.stream_from, caches.third_level / members);
    // Unless it is configured, or the processor has core complexes, the chunk size is a thirty-second of the L2 cache's
    // size. This was faster than a sixteenth or an eighth (docs/design/collectives.md). A chunk passes through the
    // caches of the rank that writes it and of the rank that reads it. The private memory of the two ranks passes
    // through these caches too, because they copy from it and to it. Two chunks are in use at the same time, and the
    // caches also hold other data.
    const bool prefers_few_chunks = caches.has_core_complexes && !has_other_hosts;
    plan.parts = prefers_few_chunks ? 2 : plan.parts;
    const std::uint64_t usual = prefers_few_chunks
                                    ? kUsualChunkOfCoreComplexes
                                    : std::clamp(caches.second_level / 32, kSmallestUsualChunk, kLargestUsualChunk);
    const std::uint64_t wanted = config.chunk_bytes != 0 ? config.chunk_bytes : usual;
    // In a reducescatter, a cell holds one piece of the tensor for each member, so it needs space for at least one
    // element for each member. An element has up to 16 bytes: between hosts, an average of int64 is sent as 16 bytes.
    // If doubles are compressed to 16 bits between hosts, they are uncompressed in the cells, and take four times as
    // many bytes there. Cells have the same size on all hosts, even if the hosts have different numbers of members.
    const std::uint64_t piece_bytes = has_other_hosts ? 64 : 8;
    const std::uint64_t pieces = has_other_hosts ? base::kMaxLocalRanks : members;
    const std::uint64_t least_lines = (piece_bytes * pieces + base::kCacheLine - 1) / base::kCacheLine;
    plan.cell_bytes = std::max(wanted / base::kCacheLine, least_lines) * base::kCacheLine;
    const auto total = [&] {
        return offsetof(base::ControlBlock, stacks) + members * sizeof(base::StackBlock) +
               touched_negotiation_bytes(extent) + plan.cell_bytes * plan.cells_per_rank * members;
    };
    while (total() > config.arena_limit_bytes && extent.payload_slots > 0) {
        shrink_payloads(extent);
    }
    while (total() > config.arena_limit_bytes && config.chunk_bytes == 0 && plan.cell_bytes > kSmallestChunk) {
        plan.cell_bytes = std::max(plan.cell_bytes / 2 / base::kCacheLine * base::kCacheLine, kSmallestChunk);
    }
    if (total() > config.arena_limit_bytes) {
        return failure(ErrorCode::resource_exhausted,
                       "the arena of {} ranks needs {}, and RUEDA_ARENA_LIMIT is {}: raise it, or lower RUEDA_SLOTS",
                       members, base::format_bytes(total()), base::format_bytes(config.arena_limit_bytes));
    }
    plan.negotiation_bytes = NegotiationMemory<base::StdAtomics>::bytes(extent);
    return sizes;
}

Result<AttachedArena> set_up_arena(const base::Config& config, collectives::ControlPlane& control_plane,
                                   const collectives::LocalGroup& group, const base::CacheSizes& caches,
                                   ResidentRoom room, collectives::AddressReserve* addresses) {
    const auto members = static_cast<std::uint32_t>(group.local_size);
    const bool is_job = room == ResidentRoom::yes;
    // Several process sets may work at the same time and share the L3 cache. So a process set plans as if there were no
    // L3 cache.
    const auto smallest = smallest_of_all<4>(
        control_plane, {is_job ? reservable_resident_bytes(config, members) : 0, config.arena_limit_bytes,
                        caches.second_level, is_job ? caches.third_level : 0});
    RUEDA_RETURN_IF_FAILED(smallest.status());
    const auto [resident_bytes, arena_limit_bytes, second_level, third_level] = smallest.value();
    base::Config agreed = config;
    agreed.arena_limit_bytes = arena_limit_bytes;
    Result<ArenaSizes> sizes = plan_arena(agreed, members, {second_level, third_level, caches.has_core_complexes},
                                          resident_bytes, static_cast<std::uint32_t>(group.size));
    Status status = sizes.status();
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, status));
    const auto cell = smallest_of_all<1>(control_plane, {sizes.value().plan.cell_bytes});
    RUEDA_RETURN_IF_FAILED(cell.status());
    sizes.value().plan.cell_bytes = cell.value().front();
    sizes.value().plan.ring_bytes = is_job ? ring_bytes_of(members) : 0;
    sizes.value().plan.has_recorder = is_job;
    base::UniqueFd memory;
    if (status.is_ok() && group.is_leader()) {
        Result<base::UniqueFd> created = collectives::Arena::create_memory(sizes.value().plan);
        status = created.status();
        memory = created.is_ok() ? std::move(created).value() : base::UniqueFd();
    }
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, status));

    const auto timeout = std::chrono::milliseconds(static_cast<std::int64_t>(config.start_timeout_seconds * 1e3));
    Result<base::UniqueFd> shared = collectives::share_descriptor(control_plane, group, memory.value(), timeout);
    RUEDA_RETURN_IF_FAILED(shared.status());
    const auto rank = static_cast<std::uint32_t>(group.local_rank);
    Result<std::shared_ptr<collectives::Arena>> mapped =
        collectives::Arena::map(std::move(shared).value(), sizes.value().plan, rank, addresses);
    status = mapped.status();
    if (status.is_ok() && group.is_leader()) {
        mapped.value()->initialise();
        NegotiationMemory<base::StdAtomics>::initialise(mapped.value()->negotiation(), sizes.value().extent);
    }
    // When agree_on() returns, the leader has written the arena, and the other ranks may read it.
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, status));
    status = mapped.value()->check();
    if (status.is_ok()) {
        status = touch_own_cells(*mapped.value(), sizes.value().extent);
    }
    RUEDA_RETURN_IF_FAILED(agree_on(control_plane, status));
    return AttachedArena{std::move(mapped).value(), sizes.value().extent};
}

}  // namespace rueda::core

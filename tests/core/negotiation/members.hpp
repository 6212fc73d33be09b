// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <sys/mman.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "core/negotiation/arrivals.hpp"
#include "core/negotiation/calling.hpp"
#include "core/negotiation/log.hpp"
#include "core/negotiation/registrar.hpp"

namespace rueda::core::test {

using Atomics = base::StdAtomics;
using Entry = Log<Atomics>::Entry;

inline Metadata allreduce_of(std::initializer_list<std::int64_t> shape, DType dtype = DType::float32) {
    Metadata metadata;
    metadata.operation = static_cast<std::uint8_t>(collectives::Operation::allreduce);
    metadata.dtype = static_cast<std::uint8_t>(dtype);
    metadata.ndim = static_cast<std::uint8_t>(shape.size());
    std::copy(shape.begin(), shape.end(), metadata.shape);
    return metadata;
}

/// All members of a process set, in private memory. One thread plays all members; each call is one step of the
/// protocol.
class Members {
public:
    explicit Members(const NegotiationExtent& extent)
        : memory_bytes_(NegotiationMemory<Atomics>::bytes(extent)),
          block_(static_cast<std::byte*>(
                     mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
                 Unmap{memory_bytes_}) {
        REQUIRE(block_.get() != MAP_FAILED);
        NegotiationMemory<Atomics>::initialise(block_.get(), extent);
        for (std::uint32_t member = 0; member < extent.members; ++member) {
            registrars_.push_back(std::make_unique<Registrar<Atomics>>(
                memory(), member, Registrar<Atomics>::Environment{.may_grow = [this](std::uint64_t bytes) {
                    asked_bytes.push_back(bytes);
                    return no_memory_to_ask ? throw std::bad_alloc() : growth;
                }}));
        }
    }

    [[nodiscard]] NegotiationMemory<Atomics> memory() const { return {block_.get(), extent()}; }
    [[nodiscard]] const NegotiationExtent& extent() const {
        return reinterpret_cast<const SetHeader<Atomics>*>(block_.get())->extent;
    }
    [[nodiscard]] SetHeader<Atomics>& header() const { return memory().header(); }
    [[nodiscard]] Registrar<Atomics>& registrar(std::uint32_t member) { return *registrars_[member]; }

    /// A weak hash, so that tests can create collisions: names of equal length have the same hash.
    [[nodiscard]] static std::uint64_t hash_of(std::string_view name) { return name.size(); }

    /// Makes a full announcement (with the name). Returns the number of log entries that it caused.
    Result<std::uint64_t> announce_in_full(std::uint32_t member, std::string_view name, const Metadata& metadata,
                                           std::int64_t at_ns = 1, std::uint32_t ticket = 7) {
        MailboxRecord<Atomics>* record = registrar(member).next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(RequestKind::announce);
        record->ticket = ticket;
        record->name_bytes = static_cast<std::uint32_t>(name.size());
        record->name_hash = hash_of(name);
        std::memcpy(record->name, name.data(), name.size());
        write(record->place, 0, at_ns, &metadata);
        return registrar(member).post();
    }
    /// Writes an announcement into the memory that the slot has for this member (the member's place), and counts the
    /// announcement in the slot. For a slot with a name, pass `metadata` only if the metadata have changed.
    /// Announcements in slots without a name always contain metadata.
    Arrival arrive_at(std::uint32_t member, std::uint32_t slot, std::uint64_t generation, std::int64_t at_ns = 1,
                      const Metadata* metadata = nullptr) {
        write(memory().place(slot, member, generation), generation, at_ns, metadata);
        return arrive(memory(), slot, generation, metadata != nullptr && slot >= extent().unnamed_slots);
    }
    void announce_directly(std::uint32_t member, std::uint32_t slot, std::uint64_t generation, std::int64_t at_ns) {
        memory().cursor(member).direct.store(slot + 1);
        write(memory().place(slot, member, generation), generation, at_ns, nullptr);
    }
    Result<std::uint64_t> resolve(std::uint32_t member, std::uint32_t slot, std::uint64_t generation) {
        MailboxRecord<Atomics>* record = registrar(member).next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(RequestKind::resolve);
        record->slot = slot;
        record->generation = generation;
        // `counted` is the number of generations (uses of the slot) that were counted. These members make no direct
        // announcements, so all generations were counted.
        record->counted = generation;
        return registrar(member).post();
    }
    /// Makes the full announcement of a joined rank. This announcement lets the other ranks execute their operation,
    /// but contains no input.
    Result<std::uint64_t> stand_in_in_full(std::uint32_t member, std::string_view name) {
        MailboxRecord<Atomics>* record = registrar(member).next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(RequestKind::announce);
        record->name_bytes = static_cast<std::uint32_t>(name.size());
        record->name_hash = hash_of(name);
        std::memcpy(record->name, name.data(), name.size());
        const Metadata none;
        write(record->place, 0, 1, &none);
        record->place.flags |= Place<Atomics>::kJoined;
        return registrar(member).post();
    }
    Arrival stand_in_at(std::uint32_t member, std::uint32_t slot, std::uint64_t generation) {
        Place<Atomics>& place = memory().place(slot, member, generation);
        write(place, generation, 1, nullptr);
        place.flags |= Place<Atomics>::kJoined;
        return arrive(memory(), slot, generation, false);
    }
    Result<std::uint64_t> settle(std::uint32_t member) {
        MailboxRecord<Atomics>* record = registrar(member).next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(RequestKind::settle);
        return registrar(member).post();
    }
    Result<std::uint64_t> shut_down(std::uint32_t member) {
        MailboxRecord<Atomics>* record = registrar(member).next_record();
        REQUIRE(record != nullptr);
        record->kind = static_cast<std::uint32_t>(RequestKind::shut_down);
        return registrar(member).post();
    }
    /// Announces the name for the first time on all members, with the same metadata. Returns the name's slot.
    std::uint32_t bind(std::string_view name, const Metadata& metadata) {
        for (std::uint32_t member = 0; member < extent().members; ++member) {
            const auto posted = announce_in_full(member, name, metadata);
            INFO(posted.status().message());
            REQUIRE(posted.is_ok());
        }
        const Entry last = entries().back();
        REQUIRE(last.kind == EntryKind::first_call);
        return last.slot;
    }
    /// Lets all members announce the next generation (use) of a slot that has a name. Then appends the call of the
    /// operation to the log, as the member that announces last does.
    void call(std::uint32_t slot, std::uint64_t generation) {
        for (std::uint32_t member = 0; member + 1 < extent().members; ++member) {
            REQUIRE(arrive_at(member, slot, generation) == Arrival::counted);
        }
        REQUIRE(arrive_at(extent().members - 1, slot, generation) == Arrival::last);
        append_call(slot, generation);
    }
    /// Appends the call of the operation to the log, as the member that announces last does.
    void append_call(std::uint32_t slot, std::uint64_t generation) {
        Log<Atomics> log(memory());
        core::append_call(memory(), log, {EntryKind::call, slot}, generation * extent().members);
    }
    /// Moves the member's cursor (its position in the log) to the end of the log, as if the member had executed all
    /// entries.
    void catch_up(std::uint32_t member) { memory().cursor(member).position.store(log_end()); }
    void catch_up() {
        for (std::uint32_t member = 0; member < extent().members; ++member) {
            catch_up(member);
        }
    }

    /// Returns the position after the last entry, even if no member has read the log and the ring has wrapped around.
    [[nodiscard]] std::uint64_t log_end() const {
        const Log<Atomics> log(memory());
        std::uint64_t end = log.end(0);
        for (std::uint64_t next = log.end(end); next != end; next = log.end(end)) {
            end = next;
        }
        return end;
    }

    /// Returns all entries since the beginning. Do not call this function after the ring has wrapped around.
    [[nodiscard]] std::vector<Entry> entries() const {
        const Log<Atomics> log(memory());
        std::vector<Entry> all;
        const std::uint64_t end = log_end();
        for (std::uint64_t position = 0; position < end; ++position) {
            if (end - position <= extent().log_entries()) {
                REQUIRE(log.is_published(position));
                all.push_back(log.read(position));
            }
        }
        return all;
    }

    Status growth;  ///< the answer to the registrar when it asks whether the table of slots may grow
    bool no_memory_to_ask = false;
    std::vector<std::uint64_t> asked_bytes;

private:
    struct Unmap {
        std::size_t bytes;
        void operator()(std::byte* memory) const { munmap(memory, bytes); }
    };

    static void write(Place<Atomics>& place, std::uint64_t generation, std::int64_t at_ns, const Metadata* metadata) {
        place.flags = 0;
        if (metadata != nullptr) {
            place.flags = Place<Atomics>::kMetadata;
            place.metadata = *metadata;
            place.signature = signature_of(*metadata);
        }
        place.announced_ns.store(at_ns);
        place.stamp.store(generation + 1);
    }

    std::size_t memory_bytes_;
    // initially all zeros; shared with child processes that act as members
    std::unique_ptr<std::byte, Unmap> block_;
    std::vector<std::unique_ptr<Registrar<Atomics>>> registrars_;
};

}  // namespace rueda::core::test

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Fuzzes the messages that ranks exchange at the start of a job. For example, these messages contain settings and
// process sets, and say where the host's shared memory is. The input supplies the messages of the other ranks. Each
// exchange must end, with success or with a one-line error.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "collectives/host/sockets/descriptor_exchange.hpp"
#include "collectives/local_group.hpp"
#include "collectives/membership.hpp"
#include "collectives/tcp/leader_rendezvous.hpp"
#include "core/setup/agreement.hpp"
#include "core/setup/first_sets.hpp"
#include "core/setup/host_cores.hpp"
#include "core/setup/shared_settings.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace rueda;
using namespace rueda::core;
using collectives::Bytes;
using fuzz::expect;

constexpr int kRanks = 3;

/// A control plane of rank 1. Rank 1's own messages are the real ones. The input supplies the messages of the other
/// ranks, each as a length byte and the message. The length byte 255 means that the other rank sends the same message
/// as rank 1.
class SomebodysPlane final : public collectives::ControlPlane {
public:
    explicit SomebodysPlane(std::span<const std::byte> input) : rest_(input) {}

    [[nodiscard]] int rank() const override { return 1; }
    [[nodiscard]] int size() const override { return kRanks; }
    [[nodiscard]] std::string description() const override { return "an input"; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        std::vector<Bytes> all;
        for (int rank = 0; rank < kRanks; ++rank) {
            all.push_back(rank == 1 ? Bytes(mine.begin(), mine.end()) : next(mine));
        }
        return all;
    }
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        return root == 1 ? Bytes(mine.begin(), mine.end()) : next(mine);
    }
    Status barrier() override { return {}; }
    void close(bool /*after_failure*/) override {}

private:
    Bytes next(std::span<const std::byte> mine) {
        if (rest_.empty()) {
            return {};
        }
        const auto length = static_cast<std::size_t>(rest_[0]);
        rest_ = rest_.subspan(1);
        if (length == 255) {
            return {mine.begin(), mine.end()};
        }
        const auto taken = rest_.first(std::min(length, rest_.size()));
        rest_ = rest_.subspan(taken.size());
        return {taken.begin(), taken.end()};
    }

    std::span<const std::byte> rest_;
};

void check(const Status& status) {
    const std::string& text = status.message();
    expect(status.is_ok() == text.empty());
    expect(std::none_of(text.begin(), text.end(), [](unsigned char c) { return c < ' '; }));
}

void begin_with_sets(SomebodysPlane& plane) {
    const FirstSets mine{7, {{0, 2}, {1}}};
    const Result<std::int32_t> first = agree_on_first_sets(plane, mine);
    check(first.status());
    expect(!first.is_ok() || first.value() >= mine.next_id);
}

/// A rank with a different list, a rank without a list, and a rank that sends no message must each cause an error.
void rendezvous_in_a_list(SomebodysPlane& plane) {
    const std::vector<int> mine{0, 2, 5};
    const Status agreed = collectives::agree_on_members(plane, mine);
    check(agreed);
    expect(agreed.is_ok() || agreed.code() == ErrorCode::mismatch || agreed.code() == ErrorCode::internal);
}

/// Runs share_descriptor(), through which ranks get the shared memory of their host. The tested rank gets this memory
/// from its leader. If `is_leader` is true, the tested rank is itself the leader of its host.
void share_memory(SomebodysPlane& plane, bool is_leader) {
    const std::vector<collectives::RankFacts> all = {collectives::own_facts("one"),
                                                     collectives::own_facts(is_leader ? "two" : "one"),
                                                     collectives::own_facts(is_leader ? "two" : "one")};
    const collectives::LocalGroup group = collectives::group_by_host(1, all);
    expect(group.is_leader() == is_leader);
    const base::UniqueFd memory(is_leader ? ::memfd_create("fuzz", MFD_CLOEXEC) : -1);
    const auto shared = collectives::share_descriptor(plane, group, memory.value(), std::chrono::milliseconds(1));
    check(shared.status());
    expect(!shared.is_ok() || shared.value().is_open());
}

/// This rank is no leader, so it makes no connection. It only gets the messages of the leaders: their addresses, and
/// whether they could connect to each other.
void rendezvous_of_other_leaders(SomebodysPlane& plane) {
    const auto rendezvous = collectives::rendezvous_of_leaders(plane, {});
    check(rendezvous.status());
    if (rendezvous.is_ok()) {
        expect(rendezvous.value().leaders.empty());
        const std::string& why_not = rendezvous.value().why_not;
        expect(std::none_of(why_not.begin(), why_not.end(), [](unsigned char c) { return c < ' '; }));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) {
        return 0;
    }
    SomebodysPlane plane(std::as_bytes(std::span(data + 1, size - 1)));
    const int exchange = data[0] % 9;
    switch (exchange) {
        case 0:
            check(agree_on(plane, {}));
            break;
        case 1: {
            base::Config config;
            const Result<std::string> unused = share_settings(plane, config);
            check(unused.status());
            break;
        }
        case 2: {
            auto group = collectives::group_by_host(1, std::vector(kRanks, collectives::own_facts()));
            const Result<double> cores = cores_of_host(plane, group);
            check(cores.status());
            expect(!cores.is_ok() || cores.value() > 0);
            break;
        }
        case 3:
            begin_with_sets(plane);
            break;
        case 4:
        case 5:
            share_memory(plane, exchange == 5);
            break;
        case 6:
            rendezvous_in_a_list(plane);
            break;
        case 8:
            rendezvous_of_other_leaders(plane);
            break;
        default: {
            const Result<collectives::LocalGroup> group = collectives::find_local_group(plane);
            check(group.status());
            if (group.is_ok()) {
                expect(group.value().size == kRanks && !group.value().members.empty());
            }
        }
    }
    return 0;
}

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "collectives/cuda/nccl/offer.hpp"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace rueda::collectives::cuda {
namespace {

using Offer = DeviceCommunicator::Offer;

bool contains(const Status& status, const std::string& part) {
    INFO(status.message());
    return status.message().find(part) != std::string::npos;
}

/// A member of a set whose members are in different processes on different devices.
Participant member_of(std::uint32_t member, std::uint32_t members) {
    Participant one{.member = member,
                    .members = members,
                    .device = static_cast<std::int32_t>(member),
                    .nccl_version = 22809,
                    .host = 77,
                    .process = 1000 + member,
                    .has_id = member == 0};
    one.uuid.bytes[0] = static_cast<char>(member);
    one.uuid.bytes[15] = 9;
    if (member == 0) {
        std::memset(one.id.bytes, 0x5a, sizeof(one.id.bytes));
    }
    return one;
}

std::vector<Participant> members_of(std::uint32_t members) {
    std::vector<Participant> all;
    for (std::uint32_t member = 0; member < members; ++member) {
        all.push_back(member_of(member, members));
    }
    return all;
}

Result<Decision> decision_of(const std::vector<Participant>& all, const std::vector<std::int32_t>& ranks = {}) {
    std::vector<Offer> offers;
    for (const Participant& one : all) {
        offers.push_back(write_offer(one));
    }
    return decide(offers, ranks);
}

/// The decision of members that allow only NCCL.
Result<NcclUniqueId> decide_all(std::vector<Participant> all) {
    for (Participant& one : all) {
        one.path = DevicePath::nccl;
    }
    const auto decision = decision_of(all);
    RUEDA_RETURN_IF_FAILED(decision.status());
    CHECK(decision.value().uses_nccl);
    return decision.value().id;
}

TEST_CASE("an offer is read as it was written", "[unit]") {
    Participant one = member_of(0, 3);
    one.shares_device = true;
    one.path = DevicePath::nccl;
    one.has_other_sets = true;
    one.unordered_set = 7;
    one.has_kernels = true;
    const auto read = read_offer(write_offer(one), 0, 3);
    REQUIRE(read.is_ok());
    CHECK(read.value().device == 0);
    CHECK(read.value().nccl_version == 22809);
    CHECK(read.value().has_kernels);
    CHECK(read.value().host == 77);
    CHECK(read.value().process == 1000);
    CHECK(read.value().shares_device);
    CHECK(read.value().has_id);
    CHECK(read.value().path == DevicePath::nccl);
    CHECK(read.value().has_other_sets);
    CHECK(read.value().unordered_set == 7);
    CHECK(read.value().refusal.empty());
    CHECK(std::memcmp(&read.value().uuid, &one.uuid, sizeof(one.uuid)) == 0);
    CHECK(std::memcmp(&read.value().id, &one.id, sizeof(one.id)) == 0);
}

TEST_CASE("a refusal is cut and made printable", "[unit]") {
    Participant one = member_of(1, 2);
    one.refusal = "no NCCL\n" + std::string(2 * kMostRefusal, 'x');
    const auto read = read_offer(write_offer(one), 1, 2);
    REQUIRE(read.is_ok());
    CHECK(read.value().refusal == "no NCCL?" + std::string(kMostRefusal - 8, 'x'));
}

TEST_CASE("an offer of another member or of another size is refused", "[unit]") {
    const Offer offer = write_offer(member_of(1, 3));
    CHECK(contains(read_offer(offer, 2, 3).status(), "the offer of member 2 for its GPU has another member's number"));
    CHECK(contains(read_offer(offer, 1, 4).status(), "another member's number"));
}

TEST_CASE("hostile bytes in an offer are refused or harmless", "[unit]") {
    std::mt19937 random(21);
    const Offer good = write_offer(member_of(0, 2));
    int refused = 0;
    for (std::size_t i = 0; i < good.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            Offer bad = good;
            bad[i] ^= static_cast<std::byte>(1 << bit);
            const auto read = read_offer(bad, 0, 2);
            refused += read.is_ok() ? 0 : 1;
            if (read.is_ok()) {
                CHECK(read.value().refusal.size() <= kMostRefusal);
                CHECK(read.value().member == 0);
            }
        }
    }
    // read_offer() must refuse an offer with one changed bit if the bit lies in these bytes: the 16 bytes of magic,
    // version, member and members; three bytes of the flags; three bytes of the refusal's length; and the 56 reserved
    // bytes.
    CHECK(refused > 8 * (16 + 3 + 3 + 56));
    for (int i = 0; i < 2000; ++i) {
        Offer bytes;
        for (std::byte& byte : bytes) {
            byte = static_cast<std::byte>(random());
        }
        CHECK_FALSE(read_offer(bytes, 0, 2).is_ok());
    }
    CHECK(contains(read_offer(Offer{}, 0, 2).status(), "another format"));
}

TEST_CASE("members on different devices with one version connect with the first member's identifier", "[unit]") {
    for (const std::uint32_t members : {1U, 2U, 8U}) {
        const auto id = decide_all(members_of(members));
        REQUIRE(id.is_ok());
        CHECK(id.value().bytes[127] == 0x5a);
    }
}

TEST_CASE("the reason of a member that cannot take part reaches all members", "[unit]") {
    auto all = members_of(3);
    all[2].refusal = "NCCL cannot be loaded";
    all[0].refusal = "ncclGetUniqueId failed";
    all[0].has_id = false;
    const auto id = decide_all(all);
    CHECK(id.status().code() == ErrorCode::unsupported);
    CHECK(contains(id.status(), "rank 0: ncclGetUniqueId failed; rank 2: NCCL cannot be loaded"));
}

TEST_CASE("a missing identifier and one in the wrong place are refused", "[unit]") {
    auto all = members_of(2);
    all[0].has_id = false;
    CHECK(contains(decide_all(all).status(), "identifier"));
    all = members_of(2);
    all[1].has_id = true;
    CHECK(contains(decide_all(all).status(), "the offer of member 1"));
}

TEST_CASE("members need the same version of NCCL", "[unit]") {
    auto all = members_of(3);
    all[2].nccl_version = 23007;
    const auto id = decide_all(all);
    CHECK(id.status().code() == ErrorCode::unsupported);
    CHECK(contains(id.status(), "rank 0 has NCCL 2.28.9, but rank 2 has NCCL 2.30.7"));
}

TEST_CASE("two members on one device need a newer NCCL, its variable, and two processes", "[unit]") {
    auto all = members_of(3);
    all[2].uuid = all[1].uuid;
    const std::string pair =
        "ranks 1 (its GPU 1) and 2 (its GPU 2), which share the device "
        "GPU-01000000-0000-0000-0000-000000000009";
    const auto old = decide_all(all);
    CHECK(old.status().code() == ErrorCode::unsupported);
    CHECK(contains(old.status(), "NCCL 2.28.9 cannot connect " + pair));
    CHECK(contains(old.status(), "start at most one rank for each device"));
    for (Participant& one : all) {
        one.nccl_version = 23007;
    }
    CHECK(contains(decide_all(all).status(),
                   "NCCL 2.30.7 connects " + pair + ", only if NCCL_MULTI_RANK_GPU_ENABLE=1 is set"));
    all[1].shares_device = all[2].shares_device = true;
    CHECK(decide_all(all).is_ok());
    CHECK(decision_of(all).value().shares_devices);
    CHECK(decision_of(all).value().nccl_version == 23007);
    all[2].process = all[1].process;
    CHECK(contains(decide_all(all).status(), "in one process"));
    all[2].host = 78;  // process numbers are compared only if the members are on the same host
    CHECK(decide_all(all).is_ok());
}

TEST_CASE("members that NCCL cannot connect use the host's memory, for the same reason", "[unit]") {
    auto all = members_of(3);
    all[2].nccl_version = 23007;
    const auto versions = decision_of(all, {4, 6, 9});
    REQUIRE(versions.is_ok());
    CHECK_FALSE(versions.value().uses_nccl);
    CHECK(versions.value().reason.find("rank 4 has NCCL 2.28.9, but rank 9 has NCCL 2.30.7") != std::string::npos);
    all = members_of(3);
    all[1].uuid = all[0].uuid;
    all[1].unordered_set = 5;
    const auto shared = decision_of(all);
    REQUIRE(shared.is_ok());
    CHECK_FALSE(shared.value().uses_nccl);
    CHECK(shared.value().reason.find("share the device") != std::string::npos);
    CHECK_FALSE(shared.value().may_change);  // the devices do not change
    CHECK(decision_of(members_of(3)).value().uses_nccl);
    CHECK_FALSE(decision_of(members_of(3)).value().shares_devices);
}

TEST_CASE("a set has an order if a member has other sets", "[unit]") {
    auto all = members_of(3);
    CHECK_FALSE(decision_of(all).value().has_order);
    all[2].has_other_sets = true;
    CHECK(decision_of(all).value().uses_nccl);
    CHECK(decision_of(all).value().has_order);
    auto alone = members_of(1);
    alone[0].has_other_sets = true;  // a set of one rank waits for no other rank, so it needs no order
    CHECK_FALSE(decision_of(alone).value().has_order);
}

TEST_CASE("a member that uses NCCL without an order in another process set keeps this set from it", "[unit]") {
    auto all = members_of(2);
    all[1].has_other_sets = true;
    all[1].unordered_set = 3;
    const auto decision = decision_of(all);
    REQUIRE(decision.is_ok());
    CHECK_FALSE(decision.value().uses_nccl);
    CHECK(decision.value().may_change);
    CHECK(decision.value().reason.find("rank 1 uses NCCL in process set 3, whose operations have no order") !=
          std::string::npos);
    CHECK(contains(decide_all(all).status(), "rank 1 uses NCCL in process set 3, whose operations have no order"));
}

TEST_CASE("members whose setting excludes NCCL need no NCCL", "[unit]") {
    auto all = members_of(2);
    for (Participant& one : all) {
        one.path = DevicePath::host;
        one.nccl_version = 0;
        one.has_id = false;
    }
    const auto decision = decision_of(all);
    REQUIRE(decision.is_ok());
    CHECK_FALSE(decision.value().uses_nccl);
    all[1] = member_of(1, 2);
    CHECK(decision_of(all).status().code() == ErrorCode::mismatch);
    CHECK(contains(decision_of(all).status(), "rank 0 has 'host', but rank 1 has 'auto'"));
}

TEST_CASE("the members use kernels only if all of them have kernels", "[unit]") {
    std::vector<Participant> all = members_of(3);
    const auto offered = [&] {
        std::vector<Offer> offers;
        for (const Participant& one : all) {
            offers.push_back(write_offer(one));
        }
        return offers;
    };
    CHECK_FALSE(all_have_kernels(offered()));
    for (Participant& one : all) {
        CHECK_FALSE(all_have_kernels(offered()));
        one.has_kernels = true;
    }
    CHECK(all_have_kernels(offered()));
    CHECK(decide(offered()).is_ok());
    auto damaged = offered();
    damaged[1][0] ^= std::byte{1};
    CHECK_FALSE(all_have_kernels(damaged));
}

/// Members of one host that share a device and have kernels.
std::vector<Participant> sharing_members(std::uint32_t members) {
    std::vector<Participant> all = members_of(members);
    for (Participant& one : all) {
        one.uuid = all[0].uuid;
        one.has_kernels = true;
    }
    return all;
}

TEST_CASE("members on one device use CUDA IPC if all of them can", "[unit]") {
    const auto decision = decision_of(sharing_members(3));
    REQUIRE(decision.is_ok());
    CHECK_FALSE(decision.value().uses_nccl);
    CHECK(decision.value().uses_ipc);
    CHECK(decision.value().ipc_refusal.empty());
    CHECK(decision.value().reason.find("which share the device") != std::string::npos);
    CHECK(decision_of(sharing_members(kMostIpcMembers)).value().uses_ipc);

    const auto refusal_of = [](const std::vector<Participant>& all) {
        const auto found = decision_of(all, {5, 6, 7});
        REQUIRE(found.is_ok());
        CHECK_FALSE(found.value().uses_nccl);
        CHECK(found.value().uses_ipc == found.value().ipc_refusal.empty());
        return found.value().ipc_refusal;
    };
    CHECK(refusal_of(sharing_members(17)) == "the process set has 17 ranks, and at most 16 are possible");
    std::vector<Participant> all = sharing_members(3);
    all[2].has_kernels = false;
    CHECK(refusal_of(all) == "rank 7 has no kernels of Rueda");
    all = sharing_members(3);
    all[2].process = all[1].process;
    CHECK(refusal_of(all) == "ranks 6 and 7 are in one process");
    all[2].host = 78;
    CHECK(refusal_of(all) == "ranks 5 and 7 are on different hosts");
}

TEST_CASE("the setting ipc excludes NCCL", "[unit]") {
    std::vector<Participant> all = members_of(2);
    for (Participant& one : all) {
        one.path = DevicePath::ipc;
        one.has_kernels = true;
        one.has_id = false;
        one.nccl_version = 0;
    }
    const auto decision = decision_of(all);
    REQUIRE(decision.is_ok());
    CHECK(decision.value().uses_ipc);
    CHECK(decision.value().reason == "RUEDA_GPU_PATH is 'ipc'");
    all[1].path = DevicePath::host;
    CHECK(contains(decision_of(all).status(), "rank 0 has 'ipc', but rank 1 has 'host'"));
    Participant one = all[0];
    one.members = 1;
    CHECK(decision_of({one}).value().ipc_refusal == "the process set has one rank");
}

}  // namespace
}  // namespace rueda::collectives::cuda

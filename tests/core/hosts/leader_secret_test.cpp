// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests which secret the leaders use to connect: for the whole job, and for a process set. The ranks are threads, and
// each of them counts as a host.
#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/hosts/leader_connections.hpp"
#include "tests/support/ranks/thread_control_plane.hpp"

namespace rueda::core::test {
namespace {

using collectives::Bytes;
using collectives::ControlPlane;

constexpr int kHosts = 3;

/// A control plane with a secret. It records the bytes that its rank sends.
class SecretPlane final : public ControlPlane {
public:
    SecretPlane(std::unique_ptr<ControlPlane> inner, std::string secret)
        : inner_(std::move(inner)), secret_(std::move(secret)) {}
    [[nodiscard]] int rank() const override { return inner_->rank(); }
    [[nodiscard]] int size() const override { return inner_->size(); }
    [[nodiscard]] std::string description() const override { return "secret"; }
    [[nodiscard]] std::string shared_secret() const override { return secret_; }
    Result<std::vector<Bytes>> allgather(std::span<const std::byte> mine) override {
        sent.append(reinterpret_cast<const char*>(mine.data()), mine.size());
        return inner_->allgather(mine);
    }
    Result<Bytes> broadcast(std::span<const std::byte> mine, int root) override {
        return inner_->broadcast(mine, root);
    }
    Status barrier() override { return inner_->barrier(); }
    collectives::Transport* transport() override { return inner_->transport(); }
    void close(bool after_failure) override { inner_->close(after_failure); }

    std::string sent;

private:
    std::unique_ptr<ControlPlane> inner_;
    std::string secret_;
};

/// The result of connect() on one host. The leaders of the job connect first, and then the leaders of a process set.
struct Connected {
    std::string why_not;
    std::string secret;
    std::string sent;
};

/// Runs the leader of a host.
Connected connect(int rank, SecretPlane& plane) {
    std::vector<collectives::RankFacts> facts(kHosts);
    for (int host = 0; host < kHosts; ++host) {
        facts[static_cast<std::size_t>(host)].hostname = "host" + std::to_string(host);
    }
    const collectives::LocalGroup group = collectives::group_by_host(rank, facts);
    auto made = connect_leaders(base::Config(), plane, group, plane.transport());
    if (!made.is_ok() || made.value().transport == nullptr) {
        return {made.is_ok() ? made.value().why_not : made.status().message(), "", ""};
    }
    collectives::LeaderTransport& transport = *made.value().transport;
    const Status of_set = connect_leaders_of_set(transport, plane, group, 1);
    return {of_set.message(), transport.job_secret(), plane.sent};
}

/// Runs the leaders of all hosts. Leader `stranger` has another secret.
std::vector<Connected> connect_all(const std::string& secret, int stranger = -1) {
    std::vector<Connected> connected(kHosts);
    auto planes = collectives::make_thread_control_planes(kHosts);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kHosts; ++rank) {
        threads.emplace_back([&, rank] {
            const auto place = static_cast<std::size_t>(rank);
            SecretPlane plane(std::move(planes[place]), rank == stranger ? "another secret" : secret);
            connected[place] = connect(rank, plane);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return connected;
}

TEST_CASE("leaders connect with the secret of the job, and send it to nobody") {
    const std::string secret = "the secret of this job";
    for (const Connected& leader : connect_all(secret)) {
        CHECK(leader.why_not.empty());
        CHECK(leader.secret == secret);
        CHECK_FALSE(leader.sent.empty());
        CHECK(leader.sent.find(secret) == std::string::npos);
    }
}

TEST_CASE("leaders refuse a leader with another secret") {
    const std::vector<Connected> leaders = connect_all("the secret of this job", 1);
    CHECK_THAT(leaders[1].why_not, Catch::Contains("secret"));
    CHECK(leaders[1].secret.empty());
}

TEST_CASE("leaders connect if the job has no secret") {
    for (const Connected& leader : connect_all("")) {
        CHECK(leader.why_not.empty());
        CHECK(leader.secret.empty());
    }
}

}  // namespace
}  // namespace rueda::core::test

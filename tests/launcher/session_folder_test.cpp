// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/start/session_folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "tests/support/folder.hpp"

namespace rueda::launcher {
namespace {

namespace fs = std::filesystem;

/// A folder for temporary files, in which Open MPI has made folders.
class SharedFolder {
public:
    [[nodiscard]] const fs::path& path() const { return folder_.path(); }
    [[nodiscard]] fs::path of_host(std::string_view host) const {
        return path() / fmt::format("ompi.{}.{}", host, ::geteuid());
    }
    /// Makes the session of an mpirun on a host, with a file in it. Returns the session's folder.
    [[nodiscard]] fs::path make(std::string_view host, int mpirun) const {
        const fs::path session = of_host(host) / fmt::format("pid.{}", mpirun);
        fs::create_directories(session / "0");
        std::ofstream(session / "contact.txt") << "tcp";
        return session;
    }

private:
    tests::Folder folder_;
};

TEST_CASE("the session of a killed mpirun is removed, but not that of another host with the same process id",
          "[unit]") {
    const SharedFolder shared;
    const fs::path own = shared.make("node1", 4711);
    const std::array others = {shared.make("node2", 4711), shared.make("node10", 4711), shared.make("node1.b", 4711)};
    remove_session_folder(shared.path(), "node1", 4711);
    CHECK_FALSE(fs::exists(own));
    CHECK_FALSE(fs::exists(shared.of_host("node1")));
    for (const fs::path& other : others) {
        CHECK(fs::exists(other / "contact.txt"));
    }
}

TEST_CASE("Open MPI may leave out the domain of the host", "[unit]") {
    const SharedFolder shared;
    const fs::path other = shared.make("node1.other.org", 4711);
    for (const std::string_view host : {"node1", "node1.example.org"}) {
        const fs::path own = shared.make(host, 4711);
        remove_session_folder(shared.path(), "node1.example.org", 4711);
        CHECK_FALSE(fs::exists(own));
        CHECK(fs::exists(other / "contact.txt"));
    }
}

TEST_CASE("another job of the host keeps its session", "[unit]") {
    const SharedFolder shared;
    const fs::path own = shared.make("node1", 4711);
    const fs::path other = shared.make("node1", 47);
    remove_session_folder(shared.path(), "node1", 4711);
    CHECK_FALSE(fs::exists(own));
    CHECK(fs::exists(other / "contact.txt"));
}

TEST_CASE("a link is no session, and a session that is not there is no failure", "[unit]") {
    const SharedFolder shared;
    const fs::path target = shared.make("node2", 4711);
    fs::create_directory_symlink(shared.of_host("node2"), shared.of_host("node1"));
    remove_session_folder(shared.path(), "node1", 4711);
    remove_session_folder(shared.path(), "node3", 4711);
    remove_session_folder(shared.path() / "nowhere", "node1", 4711);
    CHECK(fs::exists(target / "contact.txt"));
}

}  // namespace
}  // namespace rueda::launcher

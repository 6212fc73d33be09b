// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/diagnostics/files/file_writer.hpp"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/folder.hpp"

namespace rueda::core {
namespace {

using tests::Folder;

std::string content_of(const std::filesystem::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns whether the file contains this text within 20 s. On a slow disk, write() returns before the file is written.
bool has_soon(const std::filesystem::path& path, const std::string& text) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (content_of(path) != text && std::chrono::steady_clock::now() < deadline) {
        std::this_thread::yield();
    }
    return content_of(path) == text;
}

/// Returns whether the complaint is an error. A complaint about a slow disk is not an error.
bool is_failure(const std::optional<std::string>& complaint) {
    return complaint && complaint->find("does not answer") == std::string::npos;
}

std::size_t files_in(const std::filesystem::path& folder) {
    std::size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        count += entry.exists() ? 1U : 0U;
    }
    return count;
}

/// Makes the writer of rank 0 block when it writes the file `name`. Makes a pipe without a reader in place of the
/// writer's unfinished file. Opening such a pipe blocks.
std::filesystem::path hang_at(const Folder& folder, const std::string& name) {
    std::filesystem::path pipe = folder.path() / (name + ".rank0.partial");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    return pipe;
}

TEST_CASE("the files are there when write() returns, and a later file replaces the one of its name") {
    const Folder folder;
    const std::filesystem::path inner = folder.path() / "made" / "here";
    FileWriter files(inner.string(), 0);
    CHECK(files.is_wanted());
    CHECK_FALSE(std::filesystem::exists(inner));  // the writer creates the folder together with its first file
    CHECK_FALSE(is_failure(files.write({{"a", "first"}, {"b", "other"}})));
    CHECK(has_soon(inner / "a", "first"));
    CHECK(has_soon(inner / "b", "other"));
    CHECK_FALSE(is_failure(files.write({{"a", "second"}})));
    CHECK(has_soon(inner / "a", "second"));
    CHECK(files_in(inner) == 2);
    files.stop();
    CHECK_FALSE(files.write({{"a", "third"}}));
    CHECK(content_of(inner / "a") == "second");
}

TEST_CASE("writers of several ranks replace the same file, which is always whole") {
    const Folder folder;
    const std::string texts[] = {std::string(100'000, '0'), std::string(100'000, '1')};
    {
        FileWriter first(folder.path().string(), 0);
        FileWriter second(folder.path().string(), 1);
        std::thread other([&] {
            for (int i = 0; i < 20; ++i) {
                static_cast<void>(second.write({{"a", texts[1]}}));
            }
        });
        std::optional<std::string> complaint;
        for (int i = 0; i < 20; ++i) {
            complaint = first.write({{"a", texts[0]}});
            const std::string content = content_of(folder.path() / "a");
            CHECK((content == texts[0] || content == texts[1] || (complaint && content.empty())));
            CHECK_FALSE(is_failure(complaint));
        }
        other.join();
    }
    CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("a file that cannot be written is complained about once") {
    const Folder folder;
    const std::filesystem::path in_the_way = folder.path() / "file";
    std::ofstream(in_the_way) << "x";
    FileWriter files((in_the_way / "below").string(), 0);
    const auto complaint = files.write({{"a", "text"}});
    REQUIRE(complaint);
    CHECK_THAT(*complaint, Catch::StartsWith("a file could not be written: ") && Catch::Contains("below/a") &&
                               Catch::Contains("Not a directory"));
    CHECK_FALSE(files.write({{"a", "text"}}));
}

TEST_CASE("a file system that hangs holds up only the thread that writes") {
    const Folder folder;
    const std::filesystem::path pipe = hang_at(folder, "a");
    const auto begin = std::chrono::steady_clock::now();
    {
        FileWriter files(folder.path().string(), 0);
        const auto complaint = files.write({{"a", "text"}});
        REQUIRE(complaint);
        CHECK(*complaint == "the files are written late or never: " + folder.path().string() + " does not answer");
        files.stop();
    }
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
    // Reading the pipe unblocks the writer's thread, so that the thread ends before the test does.
    CHECK(content_of(pipe) == "text");
}

TEST_CASE("of the files that wait, only the newest of each name is written") {
    const Folder folder;
    const std::filesystem::path pipe = hang_at(folder, "a");
    FileWriter files(folder.path().string(), 0);
    CHECK(files.write({{"a", "text"}}));
    CHECK_FALSE(files.write({{"b", "old"}, {"c", "only"}}));
    CHECK_FALSE(std::filesystem::exists(folder.path() / "b"));
    std::string released;
    std::thread reader([&] { released = content_of(pipe); });
    CHECK_FALSE(files.write({{"b", "new"}}));
    files.stop();
    reader.join();
    CHECK(released == "text");
    CHECK(has_soon(folder.path() / "b", "new"));
    CHECK(has_soon(folder.path() / "c", "only"));
}

TEST_CASE("without a folder no files are wanted") { CHECK_FALSE(FileWriter("", 0).is_wanted()); }

}  // namespace
}  // namespace rueda::core

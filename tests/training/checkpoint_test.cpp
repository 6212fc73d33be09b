// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "rueda/training/checkpoint.hpp"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <cstring>
#include <fstream>
#include <numeric>

#include "tests/support/folder.hpp"
#include "tests/training/messages.hpp"

namespace rueda::training {
namespace {
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using test::message_of;
using tests::Folder;

struct Model {
    std::vector<float> weights = {1.0F, -0.0F, 3.5F, 4.0F, 5.0F, 6.0F};
    std::vector<std::int64_t> steps = {1LL << 40};
    std::vector<std::uint8_t> mask = {1, 2, 255};

    [[nodiscard]] std::vector<NamedTensor> tensors() {
        return {{"mask", TensorView(mask)},
                {"layer.weights", {weights.data(), DType::float32, {2, 3}}},
                {"steps", {steps.data(), DType::int64, {}}}};
    }
};

std::string bytes_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

void put(const std::filesystem::path& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("a checkpoint gives back the same bits and metadata", "[training]") {
    const Folder folder;
    Model saved;
    write_checkpoint(folder.file("m"), saved.tensors(), {{"epoch", "3"}, {"näme", "\"\n"}});
    const Checkpoint checkpoint(folder.file("m"));
    CHECK(checkpoint.metadata() == Metadata{{"epoch", "3"}, {"näme", "\"\n"}});
    REQUIRE(checkpoint.tensors().size() == 3);
    CHECK(checkpoint.tensors()[0].name == "steps");
    Model read;
    read.weights.assign(6, 0.0F);
    read.steps = {0};
    read.mask.assign(3, 0);
    checkpoint.read(read.tensors());
    CHECK(std::memcmp(read.weights.data(), saved.weights.data(), 24) == 0);
    CHECK(read.steps == saved.steps);
    CHECK(read.mask == saved.mask);
    CHECK_FALSE(std::filesystem::exists(folder.file("m.partial")));
}

TEST_CASE("a checkpoint is the bytes that the format prescribes", "[training]") {
    const Folder folder;
    std::vector<std::uint8_t> values = {7, 8};
    write_checkpoint(folder.file("m"), std::vector<NamedTensor>{{"a", TensorView(values)}}, {{"k", "v"}});
    // The expected checksums come from libxxhash, called from Python as described in
    // base/safetensors/safetensors.hpp.
    const std::string header =
        R"({"__metadata__":{"k":"v","rueda.checksums":"rueda:xxh3-64 491bd9b31fd64574 837b2932ca9cdc1b"},)"
        R"("a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
    const std::string padding((8 - header.size() % 8) % 8, ' ');
    const std::string length = {static_cast<char>(header.size() + padding.size()), 0, 0, 0, 0, 0, 0, 0};
    CHECK(bytes_of(folder.file("m")) == length + header + padding + "\x07\x08");
}

/// Reads the file as a checkpoint of the model. Returns the error's text, or "".
std::string failure_of_reading(const std::filesystem::path& path, Model& model) {
    try {
        Checkpoint(path).read(model.tensors());
    } catch (const InvalidArgument& error) {
        return error.what();
    }
    return "";
}

TEST_CASE("every flipped bit of a checkpoint is an error", "[training]") {
    const Folder folder;
    Model model;
    write_checkpoint(folder.file("whole"), model.tensors(), {{"epoch", "3"}, {"näme", "\"\n"}});
    const std::string whole = bytes_of(folder.file("whole"));
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), sizeof header);
    REQUIRE(failure_of_reading(folder.file("whole"), model).empty());
    for (std::size_t byte = 0; byte < whole.size(); ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = whole;
            damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
            put(folder.file("damaged"), damaged);
            const std::string failure = failure_of_reading(folder.file("damaged"), model);
            INFO("byte " << byte << " bit " << bit << ": " << failure);
            REQUIRE_THAT(failure, Contains("damaged: "));
            if (byte >= sizeof header + header) {
                REQUIRE_THAT(failure, Contains("the data of tensor ") && Contains("have the checksum ") &&
                                          Contains("; expected ") && Contains("take another copy of it"));
            }
        }
    }
}

TEST_CASE("large tensors have their checksums, and the error names the tensor and both sums", "[training]") {
    const Folder folder;
    std::vector<float> large(300000);  // this tensor is written in several whole pieces and one shorter piece
    std::iota(large.begin(), large.end(), 0.0F);
    std::vector<double> none;
    const std::vector<NamedTensor> tensors = {{"large", TensorView(large)}, {"none", TensorView(none)}};
    write_checkpoint(folder.file("m"), tensors);
    Checkpoint(folder.file("m")).read(tensors);
    const std::string whole = bytes_of(folder.file("m"));
    const std::size_t begin = whole.size() - large.size() * sizeof(float);
    for (const std::size_t place : {std::size_t{0}, std::size_t{1} << 18, (std::size_t{1} << 18) - 1,
                                    std::size_t{1} << 20, large.size() * sizeof(float) - 1}) {
        std::string damaged = whole;
        damaged[begin + place] = static_cast<char>(damaged[begin + place] ^ 0x10);
        put(folder.file("damaged"), damaged);
        const std::string message =
            message_of<InvalidArgument>([&] { Checkpoint(folder.file("damaged")).read(tensors); });
        CHECK_THAT(message, Contains("damaged: the data of tensor \"large\" have the checksum ") &&
                                Contains("; expected ") && Contains("recorded when it was saved"));
    }
}

TEST_CASE("a file without checksums is read, and metadata that look like checksums are not written", "[training]") {
    const Folder folder;
    std::vector<std::uint8_t> values(2);
    const std::vector<NamedTensor> tensors = {{"a", TensorView(values)}};
    const std::string header = R"({"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}} )";
    put(folder.file("old"), std::string{static_cast<char>(header.size()), 0, 0, 0, 0, 0, 0, 0} + header + "\x07\x08");
    const Checkpoint old(folder.file("old"));
    old.read(tensors);
    CHECK(old.metadata() == Metadata{{"k", "v"}});
    CHECK(values == std::vector<std::uint8_t>{7, 8});
    for (const Metadata& metadata : {Metadata{{"rueda.checksums", ""}}, Metadata{{"k", "rueda:xxh3-64 0"}}}) {
        CHECK_THAT(message_of<InvalidArgument>([&] { write_checkpoint(folder.file("m"), tensors, metadata); }),
                   Contains("reserve for their checksums"));
    }
}

TEST_CASE("an open checkpoint stays readable when the file is replaced", "[training]") {
    const Folder folder;
    Model model;
    write_checkpoint(folder.file("m"), model.tensors());
    const Checkpoint old(folder.file("m"));
    Model other;
    other.weights[0] = 99.0F;
    write_checkpoint(folder.file("m"), other.tensors());
    old.read(other.tensors());
    CHECK(other.weights[0] == 1.0F);
}

TEST_CASE("every truncation of a checkpoint is refused", "[training]") {
    const Folder folder;
    Model model;
    write_checkpoint(folder.file("whole"), model.tensors());
    const std::string whole = bytes_of(folder.file("whole"));
    for (std::size_t length = 0; length < whole.size(); ++length) {
        put(folder.file("cut"), whole.substr(0, length));
        const std::string message = message_of<InvalidArgument>([&] { Checkpoint(folder.file("cut")); });
        REQUIRE_THAT(message, Contains("cut: ") && Contains("truncated"));
    }
    put(folder.file("long"), whole + "x");
    CHECK_THAT(message_of<InvalidArgument>([&] { Checkpoint(folder.file("long")); }), Contains("nothing may follow"));
}

TEST_CASE("files that are no checkpoints are refused", "[training]") {
    const Folder folder;
    const auto message = [&](const char* name) {
        return message_of<InvalidArgument>([&] { Checkpoint(folder.file(name)); });
    };
    put(folder.file("text"), "step,epoch,loss,learning_rate,accuracy\n");
    CHECK_THAT(message("text"), Contains("header's length is given as") && Contains("no safetensors file"));
    put(folder.file("huge"), std::string(8, '\xff') + "{}");
    CHECK_THAT(message("huge"), Contains("18446744073709551615") && Contains("2 to 2"));
    CHECK_THAT(message("missing"), Contains("missing: open failed: No such file"));
    std::filesystem::create_directory(folder.file("folder"));
    CHECK_THAT(message("folder"), Contains("not a regular file"));
    REQUIRE(::mkfifo(folder.file("pipe").c_str(), 0600) == 0);
    CHECK_THAT(message("pipe"), Contains("not a regular file"));
}

TEST_CASE("a checkpoint of another model is refused before anything is changed", "[training]") {
    const Folder folder;
    Model saved;
    write_checkpoint(folder.file("m"), saved.tensors());
    const Checkpoint checkpoint(folder.file("m"));
    Model model;
    model.weights[0] = 42.0F;
    std::vector<NamedTensor> other = model.tensors();
    const auto message = [&] { return message_of<InvalidArgument>([&] { checkpoint.read(other); }); };

    other[1].tensor = {model.weights.data(), DType::float32, {3, 2}};
    CHECK_THAT(message(), Contains("'layer.weights' is float32 [2, 3] in it and float32 [3, 2] in the model"));
    other[1].tensor = {model.weights.data(), DType::int32, {2, 3}};
    CHECK_THAT(message(), Contains("int32 [2, 3] in the model"));
    other[1].name = "layer.weight";
    CHECK_THAT(message(), Contains("'layer.weight' (int32 [2, 3]) is not in it") &&
                              Contains("'layer.weights' (float32 [2, 3]) is not in the model"));
    other.clear();
    CHECK_THAT(message(), Contains("'layer.weights'") && Contains("'mask'") && Contains("'steps'"));
    for (int i = 0; i < 5; ++i) {
        other.push_back({"extra" + std::to_string(i), TensorView(model.mask)});
    }
    CHECK_THAT(message(), Contains("'extra2'") && !Contains("'extra3'") && Contains("and 5 more differences"));
    CHECK(model.weights[0] == 42.0F);
}

TEST_CASE("a path that cannot be written is named with reason and advice", "[training]") {
    const Folder folder;
    Model model;
    const auto message = [&](const std::filesystem::path& path) {
        return message_of<InvalidArgument>([&] { write_checkpoint(path, model.tensors()); });
    };
    CHECK_THAT(message(folder.path() / "no" / "m"),
               Contains("no/m.partial: open failed: No such file") && EndsWith("name an existing folder"));
    put(folder.file("file"), "");
    CHECK_THAT(message(folder.file("file") / "m"), Contains("Not a directory"));
    std::filesystem::create_directory(folder.file("folder"));
    CHECK_THAT(message(folder.file("folder")), Contains("Is a directory"));
    CHECK_FALSE(std::filesystem::exists(folder.file("folder.partial")));
}

/// Runs `body` in a forked child. Returns the exit status, or the negative number of the signal that ended the child.
template <class Body>
int in_child(Body&& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::_exit(body());
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST_CASE("running out of room leaves the last checkpoint intact", "[training]") {
    const Folder folder;
    Model model;
    write_checkpoint(folder.file("m"), model.tensors());
    const std::string before = bytes_of(folder.file("m"));
    // A limit on file sizes acts like a full disk: the same call fails at the same place. Any user can set the limit.
    const int status = in_child([&] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit small{100, 100};
        ::setrlimit(RLIMIT_FSIZE, &small);
        const std::string message =
            message_of<ResourceExhausted>([&] { write_checkpoint(folder.file("m"), model.tensors()); });
        return message.find("m.partial: write failed: File too large") == std::string::npos ||
                       message.find("make room") == std::string::npos
                   ? 1
                   : 0;
    });
    CHECK(status == 0);
    CHECK(bytes_of(folder.file("m")) == before);
    CHECK_FALSE(std::filesystem::exists(folder.file("m.partial")));
}

TEST_CASE("a process that is killed while it saves leaves a complete checkpoint", "[training]") {
    const Folder folder;
    std::vector<std::int32_t> values(100000);
    const std::vector<NamedTensor> tensors = {{"values", TensorView(values)}};
    write_checkpoint(folder.file("m"), tensors, {{"version", "0"}});
    int partial_files = 0;
    for (unsigned round = 0; round < 40; ++round) {
        int ready[2];
        REQUIRE(::pipe(ready) == 0);
        const pid_t child = ::fork();
        if (child == 0) {
            // SIGKILL ends the loop. The limit of 100000 rounds only matters if the test itself is broken.
            for (std::int32_t version = 1; version < 100000; ++version) {
                std::fill(values.begin(), values.end(), version);
                write_checkpoint(folder.file("m"), tensors, {{"version", std::to_string(version)}});
                if (version == 1 && ::write(ready[1], "x", 1) != 1) {
                    ::_exit(1);
                }
            }
            ::_exit(0);
        }
        char byte = 0;
        REQUIRE(::read(ready[0], &byte, 1) == 1);
        // This pause is no synchronisation. It has a different length in each round, so each round interrupts the save
        // at a different point.
        ::usleep(round * 53);
        ::kill(child, SIGKILL);
        REQUIRE(::waitpid(child, nullptr, 0) == child);
        ::close(ready[0]);
        ::close(ready[1]);
        partial_files += std::filesystem::exists(folder.file("m.partial")) ? 1 : 0;

        const Checkpoint checkpoint(folder.file("m"));
        checkpoint.read(tensors);
        const std::int32_t version = std::stoi(checkpoint.metadata().at("version"));
        REQUIRE(std::count(values.begin(), values.end(), version) == 100000);
    }
    CHECK(partial_files > 0);  // some saves must have been interrupted
    write_checkpoint(folder.file("m"), tensors);
    CHECK_FALSE(std::filesystem::exists(folder.file("m.partial")));
}

}  // namespace
}  // namespace rueda::training

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <chrono>
#include <thread>

#include "data/sources/byte_stream.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;

std::vector<std::string> names_of(const std::vector<Source>& sources) {
    std::vector<std::string> names;
    for (const Source& source : sources) {
        names.push_back(std::filesystem::path(source.name).filename());
    }
    return names;
}

/// A text that gzip makes shorter.
std::string long_text() {
    std::string text;
    for (int i = 0; i < 100000; ++i) {
        text += std::to_string(i) + " ";
    }
    return text;
}

/// A zstd frame with a raw block, written by hand from the format's description (RFC 8878).
std::string zstd_frame(const std::string& content) {
    REQUIRE(content.size() < 32);
    // The magic number, and a byte that says: the frame is one segment, and its content size takes one byte.
    std::string frame = "\x28\xb5\x2f\xfd\x20";
    frame += static_cast<char>(content.size());
    frame += static_cast<char>(content.size() << 3 | 1);  // the last block, raw
    frame += std::string(2, '\0');
    return frame + content;
}

/// Whether this build can read the compression.
bool can_read(FileCompression compression) {
    const std::string message = message_of([&] { ByteReader(memory("x", "", compression).front()); });
    return message.find("this build of Rueda has no") == std::string::npos;
}

TEST_CASE("Files are found by patterns, sorted, and once", "[unit]") {
    const Folder folder;
    for (const char* const name : {"b.txt", "a.txt", "c.csv"}) {
        write_file(folder.file(name), name);
    }
    CHECK(names_of(files(folder.file("*.txt"))) == std::vector<std::string>{"a.txt", "b.txt"});
    const std::vector<std::string> patterns = {folder.file("c*"), folder.file("*.txt"), folder.file("a.txt")};
    CHECK(names_of(files(patterns)) == std::vector<std::string>{"a.txt", "b.txt", "c.csv"});
    CHECK(read_all(files(folder.file("c.csv")).front()) == "c.csv");
}

TEST_CASE("A pattern that does not fit is an error that says what to do", "[unit]") {
    const Folder folder;
    CHECK_THAT(message_of([&] { (void)files(folder.file("*.txt")); }),
               Contains("no file matches '" + folder.file("*.txt").string() + "'") && Contains("check the path"));
    CHECK_THAT(message_of([&] { (void)files(folder.file("")); }), Contains("is not a regular file") && Contains("/*'"));
    make_fifo(folder.file("pipe"));
    CHECK_THAT(message_of([&] { (void)files(folder.file("p*")); }),
               Contains("which is a FIFO") && Contains("use fifo()"));
    CHECK_THAT(message_of([&] {
                   ByteReader(Source{folder.file("gone"), {}, {}, {}});
               }),
               Contains("gone': open failed: No such file or directory (errno 2)"));
    CHECK_THAT(message_of([&] { (void)files(std::vector<std::string>{}); }), Contains("the list of patterns is empty"));
}

TEST_CASE("Files compressed with gzip are read, also if they have several parts", "[unit]") {
    if (!can_read(FileCompression::gzip)) {
        WARN("skipped: this build has no zlib");
        return;
    }
    const Folder folder;
    const std::string text = long_text();
    TfrecordWriter writer(folder.file("one.gz"));
    writer.write(text);
    writer.close();
    const std::string packed = read_file(folder.file("one.gz"));
    CHECK(packed.size() < text.size() / 2);
    const std::string once = tfrecord_bytes({text});
    CHECK(read_all(files(folder.file("one.gz")).front()) == once);
    CHECK(read_all(files(folder.file("one.gz")).front(), 7) == once);
    CHECK(read_all(memory("twice", packed + packed, FileCompression::gzip).front()) == once + once);
    CHECK_THAT(
        message_of(
            [&] { read_all(memory("cut", packed.substr(0, packed.size() / 2), FileCompression::gzip).front()); }),
        Contains("decompressing 'cut': the file ends at compressed offset " + std::to_string(packed.size() / 2)));
    std::string damaged = packed;
    damaged[damaged.size() / 2] = static_cast<char>(~damaged[damaged.size() / 2]);
    damaged[damaged.size() / 2 + 1] = static_cast<char>(~damaged[damaged.size() / 2 + 1]);
    CHECK_THAT(message_of([&] { read_all(memory("damaged", damaged, FileCompression::gzip).front()); }),
               Contains("decompressing 'damaged': damaged or no gzip data at compressed offset"));
    CHECK_THAT(message_of([&] { read_all(memory("text", "plain text", FileCompression::gzip).front()); }),
               Contains("expected gzip or zlib data; check the file, or set another FileCompression"));
}

TEST_CASE("Files compressed with zstd are read, also if they have several frames", "[unit]") {
    if (!can_read(FileCompression::zstd)) {
        WARN("skipped: this build has no libzstd");
        return;
    }
    const Folder folder;
    const std::string frame = zstd_frame("hello, world");
    write_file(folder.file("a.zst"), frame + zstd_frame("") + frame);
    CHECK(read_all(files(folder.file("*")).front()) == "hello, worldhello, world");
    CHECK(read_all(files(folder.file("*")).front(), 1) == "hello, worldhello, world");
    CHECK(read_all(memory("empty", "", FileCompression::zstd).front()).empty());
    for (std::size_t length = 1; length < frame.size(); ++length) {
        CHECK_THAT(
            message_of([&] { read_all(memory("cut", frame.substr(0, length), FileCompression::zstd).front()); }),
            Contains("the file ends at compressed offset " + std::to_string(length) + " inside of a zstd frame"));
    }
    CHECK_THAT(message_of([&] { read_all(memory("text", "plain text", FileCompression::zstd).front()); }),
               Contains("decompressing 'text': damaged or no zstd data"));
}

TEST_CASE("A FIFO is read to its end, and its writer may come late", "[threads]") {
    const Folder folder;
    const std::string path = folder.file("train_0");
    make_fifo(path);
    ByteReader reader(fifo(folder.file("train_{epoch}")).front());
    std::thread writer([&] { write_file(path, long_text()); });  // opens the FIFO after the reader
    std::string all;
    std::vector<std::byte> buffer(5000);
    while (const std::size_t count = reader.read(buffer)) {
        all.append(reinterpret_cast<const char*>(buffer.data()), count);
    }
    writer.join();
    CHECK(all == long_text());
}

TEST_CASE("Records that are longer than what a FIFO returns at a time are read from it", "[threads]") {
    const Folder folder;
    make_fifo(folder.file("long"));
    const std::vector<std::string> lines = {std::string(70'000, 'a'), "b", std::string(3'000'000, 'c'), "d"};
    PipelineOptions options{.sources = fifo(folder.file("long")), .format = Lines{}, .batch = 4};
    options.epochs = 1;
    Pipeline pipeline(options);
    std::thread writer([&] {
        std::string text;
        for (const std::string& line : lines) {
            text += line + "\n";
        }
        write_file(folder.file("long"), text);
    });
    Batch batch;
    CHECK(pipeline.next(batch));
    writer.join();
    REQUIRE(batch.rows() == 4);
    for (std::size_t i = 0; i < lines.size(); ++i) {
        CHECK(batch.column("line").text(i) == lines[i]);
    }
}

TEST_CASE("A second reader of a FIFO is refused with the reason, until the first one ends", "[unit]") {
    const Folder folder;
    const std::string path = folder.file("train");
    make_fifo(path);
    {
        const ByteReader first(fifo(path).front());
        CHECK_THAT(message_of([&] { ByteReader(fifo(path).front()); }),
                   Contains("opening the FIFO '" + path + "': another reader has it open") &&
                       Contains("only one process of a host may read a channel"));
    }
    CHECK(message_of([&] { ByteReader(fifo(path).front()); }) == "no error");
    write_file(folder.file("plain"), "");
    CHECK_THAT(message_of([&] { ByteReader(fifo(folder.file("plain")).front()); }), Contains("it is not a FIFO"));
    CHECK_THAT(message_of([&] { ByteReader(sagemaker_channel("none").front(), 0); }),
               Contains("'/opt/ml/input/data/none_0': open failed") && Contains("InputMode Pipe"));
}

TEST_CASE("The FIFO of the next epoch may come late, and waiting for it can be stopped", "[threads]") {
    const Folder folder;
    const std::string path = folder.file("train_1");
    const StopSignal stop;
    std::thread maker([&] { make_fifo(path); });
    CHECK(open_fifo(path, stop, std::chrono::minutes(10)).is_ok());
    maker.join();
    CHECK_THAT(open_fifo(folder.file("train_2"), stop, std::chrono::milliseconds(1)).status().message(),
               Contains("No such file"));
    std::thread stopper([&] { stop.give(); });
    CHECK(open_fifo(folder.file("train_2"), stop, std::chrono::minutes(10)).status().code() == ErrorCode::aborted);
    auto stream = open_fifo(path, stop, std::chrono::milliseconds(0));
    REQUIRE(stream.is_ok());
    std::byte one{};
    CHECK(stream.value()->read({&one, 1}).status().code() == ErrorCode::aborted);
    stopper.join();
}

}  // namespace

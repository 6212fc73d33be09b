// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "data/pipeline/plan.hpp"
#include "data/pipeline/summary.hpp"
#include "data/sources/source_cache.hpp"
#include "tests/data/support.hpp"

namespace {

using namespace rueda;
using namespace rueda::data;
using namespace rueda::data::test;
using Catch::Contains;
using Catch::EndsWith;

/// The records of a file. They are long enough for several chunks of the pipeline.
std::vector<std::string> records_of(int file) {
    std::vector<std::string> records;
    for (int i = 0; i < 20; ++i) {
        records.push_back(std::to_string(file) + ":" + std::to_string(i) + ":" + std::string(100'000, 'x'));
    }
    return records;
}

/// Whether this build can write and read gzip.
bool has_gzip() {
    return message_of([] {
               ByteReader(memory("x", "", FileCompression::gzip).front());
           }).find("this build of Rueda has no") == std::string::npos;
}

void write_tfrecords(const std::string& path, int file) {
    TfrecordWriter writer(path);
    for (const std::string& record : records_of(file)) {
        writer.write(record);
    }
    writer.close();
}

/// Writes three TFRecord files, compressed if this build can do that.
std::vector<Source> write_sources(const Folder& folder) {
    for (int file = 0; file < 3; ++file) {
        const std::string name = "part-" + std::to_string(file) + (has_gzip() ? ".gz" : ".tfrecord");
        write_tfrecords(folder.file(name.c_str()), file);
    }
    return files(folder.file("part-*").string());
}

PipelineOptions options_for(const std::vector<Source>& sources, const std::string& cache) {
    PipelineOptions options{.sources = sources, .format = Tfrecords{}, .batch = 7, .epochs = 3};
    options.shuffle = 30;
    options.lanes = 2;
    options.cache = cache;
    return options;
}

/// Takes the batches of one epoch. Returns the texts of all samples, in order.
std::string take_epoch(Pipeline& pipeline) {
    std::string all;
    Batch batch;
    while (pipeline.next(batch)) {
        const Column& column = batch.columns().front();
        const auto bytes = column.values<std::uint8_t>();
        all.append(bytes.begin(), bytes.end());
    }
    return all;
}

/// Reads the source through the cache. Reads only the first `most` bytes if the source is longer.
std::string read_through(SourceCache& cache, const Source& source, std::size_t most = SIZE_MAX) {
    const StopSignal never_given;
    auto stream = cache.open(source, 0, never_given);
    stream.status().throw_if_failed();
    std::string all;
    std::vector<std::byte> buffer(10'000);
    while (all.size() < most) {
        const auto count = stream.value()->read(buffer);
        count.status().throw_if_failed();
        if (count.value() == 0) {
            break;
        }
        all.append(reinterpret_cast<const char*>(buffer.data()), count.value());
    }
    return all;
}

/// The names in the folder, without those that begin with a dot.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (const std::string name = entry.path().filename(); !name.starts_with('.')) {
            names.push_back(name);
        }
    }
    std::sort(names.begin(), names.end());
    return names;
}

std::unique_ptr<SourceCache> folder_cache(const Folder& folder) {
    auto cache = make_folder_cache(folder.file("cache"));
    cache.status().throw_if_failed();
    return std::move(cache).value();
}

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST_CASE("With a cache, the batches are the same, and later epochs do not read the files", "[threads]") {
    const Folder folder;
    const auto sources = write_sources(folder);
    Pipeline plain(options_for(sources, ""));
    const bool in_memory = GENERATE(true, false);
    Pipeline cached(options_for(sources, in_memory ? "memory" : folder.file("cache").string()));
    for (int epoch = 0; epoch < 3; ++epoch) {
        const std::string expected = take_epoch(plain);
        CHECK(expected.size() > 3 * 20 * 100'000);
        CHECK((take_epoch(cached) == expected));  // Catch would print all bytes
    }
    CHECK(cached.statistics().cache_opened == 6);
    CHECK(cached.statistics().cache_refused == 0);
    CHECK(plain.statistics().cache_opened == 0);
    CHECK_THAT(cached.summary(), Contains("; 6 times a file came from the cache"));
}

TEST_CASE("A pipeline that begins in the middle of an epoch completes the cache, too", "[threads]") {
    const Folder folder;
    auto options = options_for(write_sources(folder), folder.file("cache"));
    options.start = {.epoch = 0, .step = 3};
    Pipeline resumed(options);
    options.cache = "";
    Pipeline plain(options);
    CHECK((take_epoch(resumed) == take_epoch(plain)));
    CHECK((take_epoch(resumed) == take_epoch(plain)));
    CHECK(names_in(folder.file("cache")).size() == 3);
}

TEST_CASE("A folder keeps the copies for other pipelines, but not those of changed files", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    const std::string first = tfrecord_bytes(records_of(0));
    CHECK((read_through(*folder_cache(folder), source) == first));
    REQUIRE(names_in(folder.file("cache")).size() == 1);
    const std::string copy = names_in(folder.file("cache")).front();
    CHECK_THAT(copy, Catch::StartsWith("part-0."));
    CHECK(read_file(folder.file("cache") / copy).size() > first.size());  // the bytes and their checksums

    const auto other = folder_cache(folder);
    CHECK((read_through(*other, source) == first));
    CHECK(other->counts().opened == 1);

    write_tfrecords(source.name, 1);
    CHECK((read_through(*other, source) == tfrecord_bytes(records_of(1))));
    CHECK(other->counts().opened == 1);
    CHECK(names_in(folder.file("cache")).size() == 2);
}

TEST_CASE("A reader that stops early leaves nothing in the cache", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    const auto cache = folder_cache(folder);
    CHECK(read_through(*cache, source, 1000).size() < 20 * 100'000);
    CHECK(names_in(folder.file("cache")).empty());
    CHECK((read_through(*cache, source) == tfrecord_bytes(records_of(0))));
    CHECK(names_in(folder.file("cache")).size() == 1);

    const auto memory_cache = make_memory_cache([] { return 1000 * kMiB; }, 0);
    CHECK(read_through(*memory_cache, source, 1000).size() < 20 * 100'000);
    CHECK((read_through(*memory_cache, source) == tfrecord_bytes(records_of(0))));
    CHECK(memory_cache->counts().opened == 0);
    CHECK((read_through(*memory_cache, source) == tfrecord_bytes(records_of(0))));
    CHECK(memory_cache->counts().opened == 1);
}

TEST_CASE("While one reader makes a copy, other readers read the file itself", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    const StopSignal never_given;
    const auto first = folder_cache(folder);
    {
        auto slow = first->open(source, 0, never_given);
        REQUIRE(slow.is_ok());
        CHECK((read_through(*folder_cache(folder), source) == tfrecord_bytes(records_of(0))));
        CHECK((read_through(*first, source) == tfrecord_bytes(records_of(0))));
        const auto names = names_in(folder.file("cache"));
        REQUIRE(names.size() == 1);
        CHECK_THAT(names.front(), Catch::EndsWith(".partial"));
    }
    CHECK(names_in(folder.file("cache")).empty());
    // The first reader has released its lock, so another reader can make the copy.
    CHECK((read_through(*folder_cache(folder), source) == tfrecord_bytes(records_of(0))));
    CHECK(names_in(folder.file("cache")).size() == 1);
    CHECK(first->counts().refused == 0);
}

TEST_CASE("What does not fit into the memory is read from the file again", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    const auto cache = make_memory_cache([] { return 25 * kMiB; }, 10 * kMiB);
    for (int i = 0; i < 2; ++i) {
        CHECK((read_through(*cache, source) == tfrecord_bytes(records_of(0))));
    }
    CHECK(cache->counts().opened == 0);
    CHECK(cache->counts().refused == 2);
    Statistics statistics;
    statistics.cache_refused = 2;
    statistics.cache_refusal = cache->counts().first_refusal;
    CHECK_THAT(summarize(statistics),
               Contains("2 times the cache could not keep a file, first because: 25 MiB of memory are available"));
}

TEST_CASE("If the disk of the cache is full, training goes on", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    const auto cache = folder_cache(folder);
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{.rlim_cur = 500'000, .rlim_max = before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
    const std::string all = read_through(*cache, source);
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    std::signal(SIGXFSZ, handler);
    CHECK((all == tfrecord_bytes(records_of(0))));
    CHECK(cache->counts().refused == 1);
    CHECK_THAT(cache->counts().first_refusal, Contains("write failed: File too large"));
    CHECK(names_in(folder.file("cache")).empty());
}

TEST_CASE("A cache that keeps nothing is a warning, once", "[threads]") {
    const Folder folder;
    const auto sources = write_sources(folder);
    std::filesystem::create_directories(folder.file("cache") / ".lock");  // the lock file cannot be opened
    Pipeline pipeline(options_for(sources, folder.file("cache").string()));
    CHECK(pipeline.warnings().empty());
    for (int epoch = 0; epoch < 2; ++epoch) {
        (void)take_epoch(pipeline);
        REQUIRE(pipeline.warnings().size() == 1);
        CHECK_THAT(pipeline.warnings()[0],
                   Contains("could not keep the copy of a file, so the file is read in each epoch: ") &&
                       Contains(".lock: open failed"));
    }
}

TEST_CASE("A copy of another user is not used", "[unit]") {
    if (::geteuid() != 0) {
        WARN("skipped: only root can make a file of another user");
        return;
    }
    const Folder folder;
    const Source source = write_sources(folder).front();
    (void)read_through(*folder_cache(folder), source);
    const auto copy = folder.file("cache") / names_in(folder.file("cache")).front();
    const auto own = folder_cache(folder);
    CHECK((read_through(*own, source) == tfrecord_bytes(records_of(0))));
    CHECK(own->counts().opened == 1);
    REQUIRE(::chown(copy.c_str(), 12345, 12345) == 0);
    const auto other = folder_cache(folder);
    CHECK((read_through(*other, source) == tfrecord_bytes(records_of(0))));
    CHECK(other->counts().opened == 0);
}

TEST_CASE("Any damage of a copy is found, and the file is read instead", "[unit]") {
    const Folder folder;
    write_file(folder.file("small"), "0123456789");
    const Source source = files(folder.file("small").string()).front();
    CHECK(read_through(*folder_cache(folder), source) == "0123456789");
    const auto copy = folder.file("cache") / names_in(folder.file("cache")).front();
    const std::string good = read_file(copy);
    REQUIRE(good.size() == 16 + 10 + 16);  // a block, and the end
    std::vector<std::string> damaged = {good.substr(0, 26) + good, good.substr(0, 26) + good.substr(0, 26),
                                        "0123456789"};
    for (std::size_t place = 0; place < good.size(); ++place) {
        damaged.push_back(good.substr(0, place));
        damaged.push_back(good);
        damaged.back()[place] ^= '\x01';
    }
    for (const std::string& bytes : damaged) {
        CAPTURE(bytes);
        write_file(copy, bytes);
        const auto cache = folder_cache(folder);
        CHECK(read_through(*cache, source) == "0123456789");
        CHECK(cache->counts().damaged == 1);
        CHECK_THAT(cache->counts().first_damage, Contains("the copy '" + copy.string() + "' is damaged: behind "));
        CHECK(names_in(folder.file("cache")).empty());
        CHECK(read_through(*cache, source) == "0123456789");
        CHECK(read_file(copy) == good);
    }
}

TEST_CASE("A copy that is damaged in the middle gives the same batches, and one warning", "[threads]") {
    const Folder folder;
    const auto sources = write_sources(folder);
    auto options = options_for(sources, "");
    options.lanes = 1;
    Pipeline plain(options);
    options.cache = folder.file("cache");
    {
        Pipeline first(options);
        (void)take_epoch(first);
    }
    const auto copy = folder.file("cache") / names_in(folder.file("cache")).back();
    std::string bytes = read_file(copy);
    REQUIRE(bytes.size() > 2'000'000);
    bytes[1'500'000] ^= '\x40';
    write_file(copy, bytes);
    Pipeline pipeline(options);
    for (int epoch = 0; epoch < 3; ++epoch) {
        CHECK((take_epoch(pipeline) == take_epoch(plain)));
        REQUIRE(pipeline.warnings().size() == 1);
        CHECK_THAT(
            pipeline.warnings()[0],
            Contains(
                "had 1 damaged copy; the pipeline read the file instead, and makes a new copy in the next epoch") &&
                Contains(copy.string()) && Contains("the checksum of a block is wrong"));
    }
    CHECK(names_in(folder.file("cache")).size() == 3);
    CHECK(pipeline.statistics().cache_opened == 8);  // the damaged copy was made again in the second epoch
}

TEST_CASE("If a copy is damaged and its file is gone, the error names both", "[unit]") {
    const Folder folder;
    const Source source = write_sources(folder).front();
    (void)read_through(*folder_cache(folder), source);
    const auto copy = folder.file("cache") / names_in(folder.file("cache")).front();
    std::filesystem::resize_file(copy, 1'000'000);
    const StopSignal never_given;
    const auto cache = folder_cache(folder);
    auto stream = cache->open(source, 0, never_given);
    REQUIRE(stream.is_ok());
    std::filesystem::remove(source.name);
    std::vector<std::byte> buffer(2'000'000);
    const auto count = stream.value()->read(buffer);
    REQUIRE_FALSE(count.is_ok());
    CHECK_THAT(count.status().message(), Contains("the copy '" + copy.string() + "' is damaged") &&
                                             Contains("the file ends too early; and opening '" + source.name + "'"));
}

TEST_CASE("A cache that cannot work is an error, and one that wastes memory a warning", "[unit]") {
    const Folder folder;
    const auto sources = write_sources(folder);
    write_file(folder.file("plain"), "text");
    CHECK_THAT(
        message_of([&] { Pipeline(options_for(sources, folder.file("plain"))); }),
        Contains("pipeline: the folder of the cache, '" + folder.file("plain").string() + "', cannot be created") ||
            Contains("files cannot be written to the folder of the cache"));
    auto fifo_options = options_for(fifo(folder.file("pipe")), "memory");
    fifo_options.lanes = 1;
    CHECK_THAT(message_of([&] { Pipeline{fifo_options}; }), Contains("cache is 'memory', and a source is a FIFO"));
    CHECK_THAT(message_of([&] { Pipeline(options_for(sources, "Memory")); }),
               Contains("cache is 'Memory'; expected \"memory\" in lower case") && Contains("\"./Memory\""));
    CHECK_FALSE(std::filesystem::exists("Memory"));
    auto single = options_for(sources, "memory");
    single.format = WholeFiles{};
    CHECK_THAT(message_of([&] { Pipeline{single}; }), Contains("the formats Safetensors and WholeFiles"));

    auto wasteful = options_for(files(folder.file("plain")), "memory");
    wasteful.format = Lines{};
    wasteful.shuffle = 0;
    wasteful.lanes = 1;
    wasteful.epochs = 1;
    const Pipeline pipeline(wasteful);
    REQUIRE(pipeline.warnings().size() == 2);
    CHECK_THAT(pipeline.warnings()[0], Contains("there is only one epoch"));
    CHECK_THAT(pipeline.warnings()[1], Contains("files that are not compressed"));
    wasteful.sources = memory("lines", "a\n");
    const Pipeline of_bytes(wasteful);
    REQUIRE(of_bytes.warnings().size() == 1);
    CHECK_THAT(of_bytes.warnings()[0], Contains("keeps nothing, because all sources are bytes in memory"));
}

TEST_CASE("A cache in memory is too large if the copies of all ranks of a host do not fit", "[unit]") {
    const Folder folder;
    write_file(folder.file("large.gz"), "");
    // The file takes no space on the disk (it is sparse). Its size is two thirds of the memory that a cache may use, so
    // two copies do not fit.
    const CacheMemory memory = memory_for_cache();
    std::filesystem::resize_file(folder.file("large.gz"), (memory.available_bytes - memory.reserve_bytes) / 3 * 2);
    auto options = options_for(files(folder.file("large.gz")), "memory");
    options.format = Lines{};
    options.lanes = 1;
    const auto too_large = [&](int size, int ranks, int hosts = 1) {
        options.size = size;
        std::string found;
        for (const std::string& each : find_waste(options, {.ranks = ranks, .hosts = hosts, .threads = 1})) {
            found += each.find("is too large") == std::string::npos ? "" : each;
        }
        return found;
    };
    CHECK(too_large(1, 1).empty());
    CHECK(too_large(1, 2).empty());  // only this rank reads the file, so there is only one copy
    CHECK(too_large(2, 1).empty());  // the job has only this rank, so only this rank needs a copy
    CHECK_THAT(too_large(2, 2), Contains("2 ranks on this host keep copies of the same files, which together have ") &&
                                    Contains("; use a folder, which all ranks of a host can share"));
    options.sources.push_back(options.sources.front());
    options.lanes = 2;
    CHECK(too_large(2, 1).empty());  // each rank reads one of the two files
    CHECK_THAT(too_large(2, 2), Contains("2 ranks on this host keep files of their own, which together have "));
    CHECK_THAT(too_large(2, 3, 2),
               Contains("3 ranks on this host keep copies of the same files, which together have "));
    CHECK_THAT(too_large(1, 1), Contains("this rank's files have ") && EndsWith("; use a folder"));
}

}  // namespace

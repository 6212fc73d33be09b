// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "data/pipeline/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>

#include "base/text.hpp"
#include "data/sources/source_cache.hpp"
#include "rueda/training/random.hpp"

namespace rueda::data {

namespace {

using training::Random;

/// Returns the seed from which all random numbers of an epoch are derived.
std::uint64_t epoch_seed(std::uint64_t seed, std::int64_t epoch) {
    return Random(seed, static_cast<std::uint64_t>(epoch)).next();
}

template <class Item>
void shuffle_items(std::vector<Item>& items, Random random) {
    for (std::size_t i = items.size(); i > 1; --i) {
        std::swap(items[i - 1], items[random.below(i)]);
    }
}

Status refuse(std::string_view option, std::int64_t value, std::string_view expected) {
    return failure(ErrorCode::invalid_argument, "pipeline: {} is {}; expected {}", option, value, expected);
}

Status check_numbers(const PipelineOptions& options) {
    if (options.size < 1) {
        return refuse("size", options.size, "at least 1");
    }
    if (options.rank < 0 || options.rank >= options.size) {
        return refuse("rank", options.rank, fmt::format("0 to {}, because size is {}", options.size - 1, options.size));
    }
    if (options.batch < options.size) {
        return refuse(
            "batch", options.batch,
            fmt::format("the samples of one step over all ranks, at least the number of ranks, {}", options.size));
    }
    // With this limit, products of numbers of samples stay below 2^63.
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (options.batch > kMost || options.shuffle > kMost) {
        return failure(ErrorCode::invalid_argument, "pipeline: batch is {} and shuffle is {}; expected at most {}",
                       options.batch, options.shuffle, kMost);
    }
    if (options.shuffle < 0 || options.epochs < 0 || options.malformed_limit < 0 || options.threads < 0 ||
        options.prefetch < 0) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: shuffle is {}, epochs is {}, malformed_limit is {}, threads is {}, prefetch is {}; none of "
            "them may be negative",
            options.shuffle, options.epochs, options.malformed_limit, options.threads, options.prefetch);
    }
    constexpr std::int64_t kMostPrefetched = std::int64_t{1} << 16;
    if (options.prefetch > kMostPrefetched) {
        return refuse("prefetch", options.prefetch,
                      fmt::format("at most {} batches, all of which are held in memory", kMostPrefetched));
    }
    return {};
}

/// Whether the lanes read the whole sources and split them into records.
bool is_split(const Format& format) {
    return !std::holds_alternative<WholeFiles>(format) && !std::holds_alternative<Safetensors>(format);
}

/// Whether `text` is equal to `word`. Capital ASCII letters in `text` count as small letters.
bool is_same_word(std::string_view text, std::string_view word) {
    return std::ranges::equal(text, word, [](char one, char other) {
        return one == other || (one >= 'A' && one <= 'Z' && one - 'A' + 'a' == other);
    });
}

Status check_cache(const PipelineOptions& options) {
    if (options.cache != kMemoryCache && is_same_word(options.cache, kMemoryCache)) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: cache is '{0}'; expected \"memory\" in lower case for the memory of the process, or "
                       "\"./{0}\" for a folder of this name",
                       options.cache);
    }
    if (options.cache.empty() || (is_split(options.format) && !has_fifo(options))) {
        return {};
    }
    return failure(ErrorCode::unsupported, "pipeline: cache is '{}', and {}; leave cache empty", options.cache,
                   has_fifo(options) ? "a source is a FIFO, whose writer sends each epoch anew"
                                     : "the formats Safetensors and WholeFiles read single samples; the system's page "
                                       "cache keeps their files");
}

Status check_lanes(const PipelineOptions& options) {
    const auto sources = static_cast<std::int64_t>(options.sources.size());
    if (sources == 0) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: there are no sources; expected at least one, for example files(\"train-*.tfrecord\")");
    }
    if (std::ranges::find(options.sources, "", &Source::name) != options.sources.end()) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: the name of a source is empty; expected a path, or a name for bytes in memory");
    }
    if (options.lanes < 1 || options.lanes > sources || options.lanes > options.batch) {
        return refuse("lanes", options.lanes,
                      fmt::format("1 to {}, because there are {} sources and a batch has {} samples",
                                  std::min(sources, options.batch), sources, options.batch));
    }
    if (has_fifo(options) && std::holds_alternative<WholeFiles>(options.format)) {
        return failure(ErrorCode::unsupported,
                       "pipeline: a source is a FIFO, and the format WholeFiles reads files in any order; use files(), "
                       "or a format whose records follow one another, such as Tfrecords");
    }
    RUEDA_RETURN_IF_FAILED(check_cache(options));
    if (has_fifo(options) && options.lanes % options.size != 0) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: {} ranks would share {} lanes that read FIFOs; each byte of a FIFO reaches only one "
            "reader; give each rank a channel of its own and set lanes to the number of channels, or set rank = 0 "
            "and size = 1 if each host has its own data",
            options.size, options.lanes);
    }
    return {};
}

bool drops_remainder(const PipelineOptions& options) {
    return options.drop_remainder || options.remainder == Remainder::drop;
}

Status check_remainder(const PipelineOptions& options) {
    if (options.drop_remainder && options.remainder == Remainder::pad) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: drop_remainder is true, and remainder is pad; expected one of the two");
    }
    if (options.remainder == Remainder::pad && options.weights.empty()) {
        return failure(ErrorCode::invalid_argument,
                       "pipeline: remainder is pad, and weights is empty; give the column of weights a name");
    }
    return {};
}

Status check_start(const PipelineOptions& options) {
    const Position& start = options.start;
    constexpr std::int64_t kMost = std::int64_t{1} << 31;
    if (start.epoch < 0 || start.step < 0 || start.epoch > kMost || start.step > kMost) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: start has epoch {} and step {}; expected a position that Pipeline::position() returned",
            start.epoch, start.step);
    }
    if (start.fingerprint != 0 && start.fingerprint != fingerprint_of(options)) {
        return failure(
            ErrorCode::invalid_argument,
            "pipeline: start belongs to a pipeline with other options (fingerprint {:016x}, expected {:016x}), so "
            "samples would be lost or repeated; use the same seed, batch, shuffle, lanes, remainder = drop or not, and "
            "names of sources; rank, size, threads and prefetch may differ",
            start.fingerprint, fingerprint_of(options));
    }
    return {};
}

/// The hash FNV-1a.
class Fingerprint {
public:
    void add(std::string_view bytes) noexcept {
        for (const char byte : bytes) {
            hash_ = (hash_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
        }
    }
    void add_number(std::uint64_t number) noexcept {
        for (int shift = 0; shift < 64; shift += 8) {
            hash_ = (hash_ ^ ((number >> shift) & 0xff)) * 0x100000001b3;
        }
    }
    [[nodiscard]] std::uint64_t value() const noexcept { return hash_ == 0 ? 1 : hash_; }

private:
    std::uint64_t hash_ = 0xcbf29ce484222325;
};

/// Returns the number of bytes of the files on the disk, and how many files are compressed.
std::pair<std::uint64_t, std::size_t> size_of_files(std::span<const Source> sources) {
    std::uint64_t bytes = 0;
    std::size_t compressed = 0;
    for (const Source& source : sources) {
        if (source.kind != SourceKind::file) {
            continue;  // the cache keeps no FIFOs and no bytes in memory
        }
        std::error_code error;
        const auto size = std::filesystem::file_size(source.name, error);
        bytes += error ? 0 : size;
        compressed += static_cast<std::size_t>(compression_of(source) != FileCompression::none);
    }
    return {bytes, compressed};
}

void find_waste_of_memory_cache(const PipelineOptions& options, const HostShare& share,
                                std::vector<std::string>& found) {
    if (options.epochs == 1) {
        found.emplace_back("cache = \"memory\" keeps the files for later epochs, and there is only one epoch");
    }
    const auto [bytes, compressed] = size_of_files(options.sources);
    if (compressed == 0) {
        found.emplace_back(
            "cache = \"memory\" keeps a second copy of files that are not compressed, and which the system's page "
            "cache "
            "keeps anyway; this is useful only if the page cache loses them");
    }
    // `size` readers (ranks or hosts) share the lanes. If the number of lanes is a multiple of `size`, each file has
    // one reader. Otherwise, each reader keeps a copy of all files.
    const bool is_divided = options.lanes % options.size == 0;
    const std::uint64_t of_rank = is_divided ? bytes / static_cast<std::uint64_t>(options.size) : bytes;
    // If the samples are divided by hosts (size = cross_size), all ranks of a host read the same files. If size is 1,
    // this is not certain, because this rank may be the only one that reads.
    const bool is_by_host = options.size > 1 && options.size == share.hosts;
    const int ranks = is_by_host ? share.ranks : std::min(options.size, share.ranks);
    const std::uint64_t kept = of_rank * static_cast<std::uint64_t>(ranks);
    const CacheMemory memory = memory_for_cache();
    if (kept > memory.available_bytes - memory.reserve_bytes) {
        const std::string whose =
            ranks == 1 ? "this rank's files have"
                       : fmt::format("{} ranks on this host keep {}, which together have", ranks,
                                     is_divided && !is_by_host ? "files of their own" : "copies of the same files");
        found.push_back(fmt::format(
            "cache = \"memory\" is too large: {} {} on the disk{}, and {} of memory are available, a quarter of which "
            "is left to the program; what does not fit is read anew in each epoch; use a folder{}",
            whose, base::format_bytes(kept), compressed == 0 ? "" : ", decompressed more",
            base::format_bytes(memory.available_bytes), ranks == 1 ? "" : ", which all ranks of a host can share"));
    }
}

}  // namespace

bool has_fifo(const PipelineOptions& options) {
    return std::any_of(options.sources.begin(), options.sources.end(),
                       [](const Source& source) { return source.kind == SourceKind::fifo; });
}

std::vector<LanePlan> plan_lanes(const PipelineOptions& options) {
    const std::int64_t mine_begin = options.batch * options.rank / options.size;
    const std::int64_t mine_end = options.batch * (options.rank + 1) / options.size;
    std::vector<LanePlan> plans;
    for (std::int64_t lane = 0; lane < options.lanes; ++lane) {
        const std::int64_t begin = options.batch * lane / options.lanes;
        const std::int64_t end = options.batch * (lane + 1) / options.lanes;
        if (begin < mine_end && mine_begin < end) {
            plans.push_back({lane, end - begin, std::max(mine_begin, begin) - begin, std::min(mine_end, end) - begin,
                             (options.shuffle + options.lanes - 1) / options.lanes});
        }
    }
    return plans;
}

std::vector<std::uint32_t> order_of_sources(const PipelineOptions& options, std::int64_t lane, std::int64_t epoch) {
    std::vector<std::uint32_t> all(options.sources.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
        all[i] = static_cast<std::uint32_t>(i);
    }
    // If a source is a FIFO, the sources are not shuffled. Otherwise, a lane could open a FIFO for the next epoch while
    // another lane or rank still reads it for the epoch before.
    if (options.shuffle > 0 && !has_fifo(options)) {
        shuffle_items(all, Random(epoch_seed(options.seed, epoch), 0));
    }
    std::vector<std::uint32_t> mine;
    for (auto i = static_cast<std::size_t>(lane); i < all.size(); i += static_cast<std::size_t>(options.lanes)) {
        mine.push_back(all[i]);
    }
    return mine;
}

void permute(std::vector<Record>& records, std::uint64_t seed, std::int64_t epoch, std::int64_t lane,
             std::int64_t window) {
    // Stream 0 of the epoch's random numbers permutes the sources, so lane n uses the stream n + 1.
    const std::uint64_t lane_seed = Random(epoch_seed(seed, epoch), static_cast<std::uint64_t>(lane) + 1).next();
    shuffle_items(records, Random(lane_seed, static_cast<std::uint64_t>(window)));
}

Status complete(PipelineOptions& options, const HostShare& share) {
    RUEDA_RETURN_IF_FAILED(check_numbers(options));
    RUEDA_RETURN_IF_FAILED(check_lanes(options));
    RUEDA_RETURN_IF_FAILED(check_remainder(options));
    RUEDA_RETURN_IF_FAILED(check_start(options));
    options.remainder = drops_remainder(options) ? Remainder::drop : options.remainder;
    if (options.threads == 0) {
        constexpr int kMostByDefault = 8;  // more threads would mostly wait for memory
        options.threads = std::min(share.threads, kMostByDefault);
    }
    if (options.prefetch == 0) {
        options.prefetch = options.threads + 2;
    }
    return {};
}

std::uint64_t fingerprint_of(const PipelineOptions& options) {
    Fingerprint fingerprint;
    fingerprint.add_number(options.seed);
    fingerprint.add_number(static_cast<std::uint64_t>(options.batch));
    fingerprint.add_number(static_cast<std::uint64_t>(options.shuffle));
    fingerprint.add_number(static_cast<std::uint64_t>(options.lanes));
    fingerprint.add_number(drops_remainder(options) ? 1 : 0);
    for (const Source& source : options.sources) {
        const std::size_t slash = source.name.rfind('/');
        fingerprint.add(std::string_view(source.name).substr(slash == std::string::npos ? 0 : slash + 1));
        fingerprint.add(std::string_view("\0", 1));
    }
    return fingerprint.value();
}

std::vector<std::string> find_waste(const PipelineOptions& options, const HostShare& share) {
    std::vector<std::string> found;
    if (!options.cache.empty() &&
        std::ranges::find(options.sources, SourceKind::file, &Source::kind) == options.sources.end()) {
        found.push_back(fmt::format(
            "cache = '{}' keeps nothing, because all sources are bytes in memory; they are decompressed in each epoch",
            options.cache));
    } else if (options.cache == kMemoryCache) {
        find_waste_of_memory_cache(options, share, found);
    }
    const auto sources = static_cast<std::int64_t>(options.sources.size());
    // Only formats that are split are examined: with the other formats, each rank reads only its own samples.
    if (options.size > 1 && options.lanes % options.size != 0 && is_split(options.format)) {
        found.push_back(
            fmt::format("{} ranks share {} {}, so sources are read by several ranks; {}", options.size, options.lanes,
                        options.lanes == 1 ? "lane" : "lanes",
                        sources >= options.size && options.batch >= options.size
                            ? fmt::format("lanes = {} would let each rank read its own sources",
                                          std::min(sources, options.batch) / options.size * options.size)
                            : fmt::format("with at least {} sources, each rank could read its own", options.size)));
    }
    if (options.shuffle > 1 && options.shuffle <= options.batch) {
        found.push_back(
            fmt::format("shuffle = {} is not larger than batch = {}, so the batches hardly change from epoch to epoch; "
                        "use at least "
                        "ten batches if memory allows",
                        options.shuffle, options.batch));
    }
    if (options.prefetch < options.threads) {
        found.push_back(fmt::format("prefetch = {} is smaller than threads = {}, so {} threads always wait",
                                    options.prefetch, options.threads, options.threads - options.prefetch));
    }
    return found;
}

}  // namespace rueda::data

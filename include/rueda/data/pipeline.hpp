// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// The input pipeline: from sources to batches.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rueda/data/batch.hpp"
#include "rueda/data/formats.hpp"
#include "rueda/data/source.hpp"

namespace rueda::data {

/// A place between two batches. It is the whole state of a pipeline, is the same on all ranks that took the same number
/// of batches, and stays valid if the number of ranks changes. Save it in the checkpoint of one rank.
struct Position {
    std::int64_t epoch = 0;
    std::int64_t step = 0;          ///< number of batches of the epoch that were taken
    std::uint64_t fingerprint = 0;  ///< of the options that determine the order of the samples

    [[nodiscard]] bool operator==(const Position&) const = default;
    /// Returns the position as one line of text, for a checkpoint.
    [[nodiscard]] RUEDA_API std::string to_text() const;
    /// Reads such a line. Throws InvalidArgument if it is not one.
    [[nodiscard]] RUEDA_API static Position from_text(std::string_view text);
};

struct PipelineOptions {
    std::vector<Source> sources;  ///< for example files("train-*.tfrecord")
    Format format;
    std::int64_t batch = 0;       ///< number of samples in one step, over all ranks; ≥ size
    int rank = 0;                 ///< usually rueda::rank()
    int size = 1;                 ///< usually rueda::size()
    std::uint64_t seed = 0;       ///< must be the same on every rank
    std::int64_t shuffle = 0;     ///< number of samples, over all lanes, that are permuted together; the order of the
                                  ///< sources is permuted, too, unless one is a FIFO. 0: the samples keep their order
    std::int64_t lanes = 1;       ///< number of sequences into which the sources are dealt out, at most the number of
                                  ///< sources. With a multiple of `size`, each rank reads its own sources only. With 1,
                                  ///< every rank reads all sources
    bool drop_remainder = false;  ///< end the epoch before the first batch that is not full
    std::int64_t epochs = 0;      ///< number of epochs; 0: no end
    std::int64_t malformed_limit = 0;  ///< number of malformed records that are left out; one more is an error. The
                                       ///< pipeline counts from its start, on each rank
    int threads = 0;                   ///< threads that parse; 0: as many as there are usable cores, at most 8
    std::int64_t prefetch = 0;         ///< batches that are begun and not taken, at most; 0: threads + 2
    /// These functions are called in order for each batch, by several threads at a time.
    std::vector<std::function<void(Batch&)>> maps = {};
    Position start = {};  ///< where to begin. A fingerprint of 0 is not compared
};

/// An account of the work of a pipeline and of the time that each stage took.
struct Statistics {
    std::int64_t batches = 0;    ///< that were taken
    std::int64_t records = 0;    ///< in these batches
    std::int64_t bytes = 0;      ///< of these records, before parsing
    std::int64_t malformed = 0;  ///< records that were left out
    double seconds = 0;          ///< since the first call of next()
    double consumer_waited = 0;  ///< seconds in which next() waited
    double reading = 0;          ///< seconds, over all lanes: read, decompress, find the records, permute
    double parsing = 0;          ///< seconds, over all threads
    double mapping = 0;          ///< seconds, over all threads, in the functions of PipelineOptions::maps
    double starved = 0;          ///< seconds, over all threads, that parsing waited for the lanes
    int lanes = 0;               ///< that this rank reads
    int threads = 0;             ///< that parse
};

/// Reads the sources with threads of its own and hands out batches. The batches depend on the options alone, not on the
/// number of threads or on timing. docs/data.md explains how to choose the options.
///
/// Threads: one thread at a time may call the functions.
class RUEDA_API Pipeline {
public:
    /// Starts the threads. Throws InvalidArgument if an option cannot be used, or if `start` has the fingerprint of
    /// other options; the message names the option. Throws ResourceExhausted if the system refuses a thread.
    explicit Pipeline(PipelineOptions options);
    Pipeline(Pipeline&&) noexcept;
    Pipeline& operator=(Pipeline&&) noexcept;
    /// Stops the threads, and drops batches that were not taken.
    ~Pipeline();

    /// Waits for the next batch and puts it into `batch`, whose old memory is used again. Returns false at the end of
    /// each epoch, and again at every call after the last epoch. `batch` is then unchanged.
    ///
    /// The last batch of an epoch may be smaller than the others, and this rank's part of it may be empty (rows() is 0)
    /// if it has fewer samples than there are ranks.
    ///
    /// Throws InvalidArgument for a malformed record above the limit, and for a source that cannot be read. Later calls
    /// throw the same error. Throws what a map function has thrown.
    bool next(Batch& batch);

    /// Waits until next() would return at once, at most for this time. Returns whether it would. A program that must
    /// also look at something else, for example at signals, waits in parts.
    bool wait_for(std::chrono::nanoseconds timeout);

    /// Returns the place after the last batch that was taken. After next() returned false, it is the beginning of the
    /// next epoch.
    [[nodiscard]] Position position() const;
    /// Returns whether all epochs have ended.
    [[nodiscard]] bool finished() const;
    [[nodiscard]] Statistics statistics() const;
    /// Returns what statistics() says, as one line for people. It names the slowest stage if the consumer waited.
    [[nodiscard]] std::string summary() const;
    /// Returns one line for each choice of options that wastes time or memory.
    [[nodiscard]] std::span<const std::string> warnings() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data

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

/// A place between two batches. It is the whole state of a pipeline. It is the same on all ranks that took the same
/// number of batches, and stays valid if the number of ranks changes. Save it in the checkpoint of one rank.
struct Position {
    std::int64_t epoch = 0;
    std::int64_t step = 0;          ///< number of batches that the caller has taken in this epoch
    std::uint64_t fingerprint = 0;  ///< identifies the options that determine the order of the samples

    [[nodiscard]] bool operator==(const Position&) const = default;
    /// Returns the position as one line of text, for a checkpoint.
    [[nodiscard]] RUEDA_API std::string to_text() const;
    /// Reads such a line. Throws InvalidArgument if it is not one.
    [[nodiscard]] RUEDA_API static Position from_text(std::string_view text);
};

struct PipelineOptions {
    std::vector<Source> sources;  ///< for example files("train-*.tfrecord")
    Format format;
    std::int64_t batch = 0;    ///< number of samples in one step, over all ranks; ≥ size
    int rank = 0;              ///< usually rueda::rank()
    int size = 1;              ///< usually rueda::size()
    std::uint64_t seed = 0;    ///< the value must be the same on every rank
    std::int64_t shuffle = 0;  ///< number of samples, over all lanes, that are permuted together. The order of the
                               ///< sources is permuted too, unless a source is a FIFO. 0: the samples keep their order
    std::int64_t lanes = 1;  ///< number of lanes: the sources are divided into this many sequences; at most the number
                             ///< of sources. If this is a multiple of `size`, each rank reads only its own sources. If
                             ///< this is 1, every rank reads all sources
    bool drop_remainder = false;  ///< end the epoch before the first batch that is not full
    std::int64_t epochs = 0;      ///< number of epochs; 0: no end
    /// The number of malformed records that are left out; a further malformed record is an error. Each rank counts its
    /// own malformed records, from the start of the pipeline.
    std::int64_t malformed_limit = 0;
    int threads = 0;  ///< threads that parse; 0: as many as there are usable cores, at most 8
    /// the largest number of batches that the pipeline has begun and the caller has not taken; 0: threads + 2
    std::int64_t prefetch = 0;
    /// For each batch, a thread calls these functions in their order. Several threads may call them at the same time,
    /// for different batches.
    std::vector<std::function<void(Batch&)>> maps = {};
    Position start = {};  ///< where to begin. If its fingerprint is 0, the fingerprint is not compared
};

/// How much work a pipeline did, and how long each of its stages took.
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
    double starved = 0;          ///< seconds, over all threads, in which parsing waited for samples of the lanes
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
    /// each epoch, and at every call after the last epoch. If the result is false, `batch` is unchanged.
    ///
    /// The last batch of an epoch may be smaller than the other batches. If it has fewer samples than there are ranks,
    /// this rank's part of the batch may be empty (rows() is 0).
    ///
    /// Throws InvalidArgument if there are more malformed records than the limit, or if a source cannot be read. If a
    /// map function has thrown an exception, throws this exception. Later calls throw the same error.
    bool next(Batch& batch);

    /// Waits until next() would return at once, at most for this time. Returns whether it would. A program that must
    /// also look at something else, for example at signals, waits in parts.
    bool wait_for(std::chrono::nanoseconds timeout);

    /// Returns the place after the last batch that was taken. After next() returned false, the place is the beginning
    /// of the next epoch.
    [[nodiscard]] Position position() const;
    /// Returns whether all epochs have ended.
    [[nodiscard]] bool finished() const;
    [[nodiscard]] Statistics statistics() const;
    /// Returns the numbers of statistics() as one line for people. It names the slowest stage if the consumer waited.
    [[nodiscard]] std::string summary() const;
    /// Returns one line for each choice of options that wastes time or memory.
    [[nodiscard]] std::span<const std::string> warnings() const;

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace rueda::data

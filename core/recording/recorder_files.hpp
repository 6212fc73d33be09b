// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/recorder/recording_file.hpp"
#include "collectives/host/arena/arena.hpp"
#include "core/diagnostics/files/file_writer.hpp"

namespace rueda::core {

/// Writes the flight recorders of this host's ranks to files, one for each rank. When a rank's recorder is written
/// again, the new file replaces the old one. The size of a file has a limit: the ring of a rank has 4096 operations,
/// which take less than 2 MiB.
///
/// Threads: any, one at a time.
class RecorderFiles {
public:
    /// `files` must outlive this object. `size` is the number of ranks of the job.
    RecorderFiles(FileWriter& files, std::shared_ptr<collectives::Arena> arena, std::string host, std::int32_t size)
        : files_(files), arena_(std::move(arena)), host_(std::move(host)), size_(size) {}

    /// Writes the recorders of all ranks of the host.
    [[nodiscard]] std::optional<std::string> write_all(std::string_view reason) noexcept;
    /// Call this when the job has ended. Each rank writes its own recorder. The lowest rank that still lives also
    /// writes the recorders of ranks that cannot do it themselves. These are dead ranks, and ranks whose background
    /// thread has had no heartbeat for a while.
    ///
    /// write_all() and write_at_end() return what FileWriter::write() returns.
    [[nodiscard]] std::optional<std::string> write_at_end(std::string_view reason) noexcept;

private:
    template <class Choose>
    std::optional<std::string> write(std::string_view reason, Choose&& choose) noexcept;
    [[nodiscard]] base::Recording recording_of(std::uint32_t member, std::string_view reason) const;
    [[nodiscard]] bool is_dead(std::uint32_t member) const;
    [[nodiscard]] bool is_lowest_alive() const;

    FileWriter& files_;
    std::shared_ptr<collectives::Arena> arena_;
    std::string host_;
    std::int32_t size_;
};

}  // namespace rueda::core

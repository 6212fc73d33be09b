// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#pragma once

#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "launcher/start/rank_starter.hpp"

namespace rueda::launcher {

/// Starts the mpirun of a job, forwards its error output, and ends it. mpirun's standard output is ruedarun's own.
/// Threads: only one thread may use an object.
class Mpirun final : public RankStarter {
public:
    [[nodiscard]] Status start(const LaunchPlan& plan, const StartContext& context,
                               const std::vector<EnvironmentChange>& more) override;
    void add_to(base::PollSet& set) override;
    /// Does what RankStarter::ended() says. If a signal ended mpirun, this function also removes the temporary folder
    /// that Open MPI's mpirun had no time to remove.
    [[nodiscard]] std::optional<End> ended(pid_t pid, int wait_status) override;
    void signal(int signal_number) const override;
    [[nodiscard]] bool is_gone() const override { return pid_ == 0; }

private:
    base::UniqueFd errors_;
    std::string temporary_folder_;  ///< the folder in which mpirun makes its temporary files
    pid_t pid_ = 0;                 ///< mpirun's process number; 0: mpirun was not started, or its exit status was
                                    ///< collected
};

}  // namespace rueda::launcher

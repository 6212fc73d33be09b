// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/stacks/stacks_text.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "base/stacks/stack_questions.hpp"
#include "base/system/process_status.hpp"
#include "base/text.hpp"

namespace rueda::launcher {

namespace {

using Json = nlohmann::ordered_json;

std::string_view process_of(const RankSample& rank) {
    return rank.process ? base::describe_process_state(rank.process->state) : "gone";
}

std::string title_of(const RankSample& rank) {
    std::string title = fmt::format("rank {}", rank.rank);
    if (rank.process) {
        title += fmt::format(" (pid {})", rank.pid);
    }
    title += fmt::format(": {}", process_of(rank));
    if (rank.step >= 0) {
        title += fmt::format("; in step {}", rank.step);
    }
    if (!rank.scope.empty()) {
        title += "; in scope " + base::quote(rank.scope);
    }
    return title;
}

Json json_of(const RankSample& rank, const std::string& text) {
    return {{"rank", rank.rank},
            {"pid", rank.process ? Json(rank.pid) : Json(nullptr)},
            {"process", process_of(rank)},
            {"step", rank.step >= 0 ? Json(rank.step) : Json(nullptr)},
            {"scope", rank.scope},
            {"has_stack", base::has_stack(text)},
            {"stack", text}};
}

}  // namespace

std::string describe_stacks(const JobStacks& stacks) {
    const JobSample& job = stacks.job;
    std::string text = fmt::format("{}  {}  {}\n", job.id, name_of(job.state()), job.program);
    if (job.was_aborted) {
        text += fmt::format("aborted: {}\n", job.abort_reason);
    }
    for (std::size_t i = 0; i < job.ranks.size(); ++i) {
        text += "\n" + title_of(job.ranks[i]) + "\n";
        std::istringstream lines(stacks.texts[i]);
        for (std::string line; std::getline(lines, line);) {
            text += "  " + line + "\n";
        }
    }
    return text;
}

std::string stacks_as_json(const JobStacks& stacks) {
    const JobSample& job = stacks.job;
    Json ranks = Json::array();
    for (std::size_t i = 0; i < job.ranks.size(); ++i) {
        ranks.push_back(json_of(job.ranks[i], stacks.texts[i]));
    }
    const Json document = {{"id", job.id},
                           {"program", job.program},
                           {"state", name_of(job.state())},
                           {"abort_reason", job.was_aborted ? Json(job.abort_reason) : Json(nullptr)},
                           {"ranks", std::move(ranks)}};
    return document.dump(2) + "\n";
}

}  // namespace rueda::launcher

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/gpus/rank_gpus.hpp"

#include <fmt/format.h>

#include "base/gpus/choose_device.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "launcher/options/text_parts.hpp"

namespace rueda::launcher {

namespace {

constexpr std::string_view kPerRankWord = "--gpus-per-rank=";
constexpr std::string_view kShareWord = "--share-gpu";

/// A value of CUDA_VISIBLE_DEVICES is cut at this length. The value is used only in messages, which shorten it too.
constexpr std::size_t kLongestShown = 100;

}  // namespace

std::vector<std::string> words_of(const RankGpus& gpus) {
    std::vector<std::string> words;
    if (gpus.per_rank > 0) {
        words.push_back(fmt::format("{}{}", kPerRankWord, gpus.per_rank));
        if (gpus.share) {
            words.emplace_back(kShareWord);
        }
    }
    return words;
}

bool is_word_about_gpus(std::string_view word) { return word.starts_with(kPerRankWord) || word == kShareWord; }

RankGpus read_rank_gpus(std::span<const std::string> words) {
    RankGpus gpus;
    for (const std::string& word : words) {
        gpus.share = gpus.share || word == kShareWord;
        if (word.starts_with(kPerRankWord)) {
            gpus.per_rank = base::parse_integer<int>(word.substr(kPerRankWord.size())).value_or(0);
        }
    }
    return gpus;
}

base::VisibleGpus gpus_here(const Environment& environment) {
    const auto found = environment.find(base::kVisibleDevices);
    return base::visible_gpus(found == environment.end() ? std::nullopt : std::optional(found->second),
                              base::find_machine_gpus().gpus);
}

Result<std::string> devices_of_rank(const RankGpus& gpus, int local_rank, int local_ranks, const std::string& host,
                                    const base::VisibleGpus& visible) {
    base::DeviceRequest request;
    request.local_rank = local_rank;
    request.local_size = local_ranks;
    request.gpus_per_rank = gpus.per_rank;
    request.share = gpus.share;
    request.host = host;
    return base::devices_of_rank(request, visible);
}

std::string encode_gpus(const base::VisibleGpus& visible) {
    const std::string variable = visible.variable ? "=" + base::printable(*visible.variable, kLongestShown) : "";
    return fmt::format("{}\t{}\t{}\t{}", visible.on_machine, fmt::join(visible.entries, ","), variable,
                       visible.problem);
}

base::VisibleGpus decode_gpus(std::string_view line) {
    base::VisibleGpus visible;
    visible.on_machine = base::parse_integer<std::size_t>(take_until(line, '\t')).value_or(0);
    std::string_view entries = take_until(line, '\t');
    while (!entries.empty()) {
        visible.entries.emplace_back(take_until(entries, ','));
    }
    const std::string_view variable = take_until(line, '\t');
    if (variable.starts_with('=')) {
        visible.variable = std::string(variable.substr(1));
    }
    visible.problem = base::printable(line);
    return visible;
}

}  // namespace rueda::launcher

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests settings that differ between ranks. For some of them, all ranks use the value of rank 0; for others, they use
// the smallest value. A difference in any other setting is an error on all ranks.
#include "core/setup/shared_settings.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "base/settings/setting_text.hpp"
#include "base/settings/settings.hpp"
#include "tests/conformance/jobs.hpp"
#include "tests/conformance/scenarios.hpp"
#include "tests/support/check_passed.hpp"

namespace rueda::tests {
namespace {

using base::Setting;
using base::SettingScope;

/// Returns one configuration per rank: the test's usual settings, changed by `changes[r]` for rank r.
using Change = std::function<void(base::Config&)>;
std::vector<base::Config> settings_of(const std::vector<Change>& changes) {
    std::vector<base::Config> configs(changes.size(), test_config());
    for (std::size_t rank = 0; rank < changes.size(); ++rank) {
        if (changes[rank]) {
            changes[rank](configs[rank]);
        }
    }
    return configs;
}

/// Runs ranks that only exchange their settings. Each rank reports the result of share_settings() and the shared
/// settings.
RanksResult share(const std::vector<base::Config>& configs, RanksAs as = RanksAs::threads) {
    return run_ranks(static_cast<int>(configs.size()),
                     [&](RankContext& context) {
                         auto plane = context.open_control_plane();
                         plane.status().throw_if_failed();
                         base::Config config = configs[static_cast<std::size_t>(context.rank())];
                         const auto said = core::share_settings(*plane.value(), config);
                         context.report("code", static_cast<int>(said.status().code()));
                         context.report("said", said.is_ok() ? said.value() : said.status().message());
                         for (const Setting& setting : base::settings()) {
                             context.report(std::string(setting.name), base::value_text(setting, config));
                         }
                         plane.value()->close(false);
                     },
                     {.as = as});
}

/// Changes a setting to another valid value.
struct Other {
    base::Config& config;

    void operator()(const base::IdentitySetting& /*kind*/) const {}
    void operator()(const base::CountSetting& kind) const { config.*kind.member += 1; }
    void operator()(const base::BytesSetting& kind) const { config.*kind.member += base::kMiB; }
    void operator()(const base::SecondsSetting& kind) const {
        config.*kind.member = kind.range.lowest + (kind.range.highest - kind.range.lowest) / 3;
    }
    void operator()(const base::SwitchSetting& kind) const { config.*kind.member = !(config.*kind.member); }
    void operator()(const base::TextSetting& kind) const { config.*kind.member += "other"; }
    void operator()(const base::ChoiceSetting& kind) const {
        kind.store(config, (kind.load(config) + 1) % kind.words.size());
    }
};

}  // namespace

TEST_CASE("rank 0's value counts, bit by bit, of every setting that says so", "[threads]") {
    for (const Setting& setting : base::settings()) {
        if (setting.scope != SettingScope::rank_zero) {
            continue;
        }
        std::vector<base::Config> configs(3, test_config());
        std::visit(Other{configs[0]}, setting.kind);
        const std::string rank_zeros = base::value_text(setting, configs[0]);
        const std::string usual = base::value_text(setting, configs[1]);
        const std::string described = usual.empty() ? "not set" : "'" + usual + "'";
        REQUIRE(rank_zeros != usual);
        const RanksResult result = share(configs);
        INFO(setting.name << '\n' << result.text());
        REQUIRE(result.passed());
        for (const RankOutcome& rank : result.ranks) {
            CHECK(rank.value("code") == "0");
            CHECK(rank.value(std::string(setting.name)) == rank_zeros);
        }
        CHECK(result.ranks[0].value("said") ==
              fmt::format("{} is '{}' on rank 0 and {} on ranks 1, 2: rank 0's counts; pass it to all, as ruedarun "
                          "-x {}=VALUE does",
                          setting.name, rank_zeros, described, setting.name));
        CHECK(result.ranks[1].value("said").empty());
    }
}

TEST_CASE("settings that may differ between ranks keep each rank's own value", "[threads]") {
    const auto configs = settings_of({nullptr, [](base::Config& config) {
                                          config.spin_seconds = 0.25;
                                          config.log_hide_time = !config.log_hide_time;
                                      }});
    const RanksResult result = share(configs);
    INFO(result.text());
    REQUIRE(result.passed());
    CHECK(result.ranks[0].value("said").empty());
    for (std::size_t rank = 0; rank < 2; ++rank) {
        for (const Setting& setting : base::settings()) {
            CHECK(result.ranks[rank].value(std::string(setting.name)) == base::value_text(setting, configs[rank]));
        }
    }
}

TEST_CASE("one warning for all that rank 0 decides", "[threads]") {
    const RanksResult result = share(settings_of({nullptr, [](base::Config& config) { config.slots = 900; },
                                                  [](base::Config& config) {
                                                      config.slots = 800;
                                                      config.network_chunk_bytes = 65536;
                                                  }}));
    INFO(result.text());
    REQUIRE(result.passed());
    CHECK(result.ranks[0].value("said") ==
          "RUEDA_NETWORK_CHUNK is '0' on ranks 0, 1 and '64K' on rank 2; RUEDA_SLOTS is '1024' on rank 0 and '800' on "
          "rank 2 and '900' on rank 1: rank 0's counts; pass it to all, as ruedarun -x RUEDA_NETWORK_CHUNK=VALUE -x "
          "RUEDA_SLOTS=VALUE does");
}

TEST_CASE("if a setting that decides results differs, all ranks refuse it with one line", "[threads]") {
    const auto bf16 = [](base::Config& config) { config.compression = Compression::bf16; };
    const RanksResult result = share(settings_of({nullptr, nullptr, bf16, nullptr, bf16}));
    INFO(result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("code") == std::to_string(static_cast<int>(ErrorCode::invalid_argument)));
        CHECK(rank.value("said") ==
              "RUEDA_COMPRESSION is 'none' on ranks 0, 1, 3 and 'bf16' on ranks 2, 4; expected the same on all ranks, "
              "as "
              "results depend on it: pass it to all, as ruedarun -x RUEDA_COMPRESSION=VALUE does");
    }
}

TEST_CASE("the line stays readable where every rank has another value", "[threads]") {
    std::vector<base::Config> configs(8, test_config());
    for (std::size_t rank = 1; rank < configs.size(); ++rank) {
        configs[rank].slots_max = 16384 + static_cast<std::uint32_t>(rank);
    }
    const RanksResult result = share(configs);
    INFO(result.text());
    REQUIRE(result.passed());
    CHECK(result.ranks[0].value("said").starts_with(
        "RUEDA_SLOTS_MAX is '16384' on rank 0 and '16385' on rank 1 and '16386' on rank 2 and '16387' on rank 3 and "
        "'16388' on rank 4 and other values on ranks 5-7: rank 0's counts"));
}

namespace {

/// A control plane whose broadcast sends a text that the test chooses instead of rank 0's bytes.
class OtherWords final : public collectives::ControlPlane {
public:
    OtherWords(std::unique_ptr<collectives::ControlPlane> plane, std::string broadcast)
        : plane_(std::move(plane)), broadcast_(std::move(broadcast)) {}

    [[nodiscard]] int rank() const override { return plane_->rank(); }
    [[nodiscard]] int size() const override { return plane_->size(); }
    [[nodiscard]] std::string description() const override { return plane_->description(); }
    Result<std::vector<collectives::Bytes>> allgather(std::span<const std::byte> mine) override {
        return plane_->allgather(mine);
    }
    Result<collectives::Bytes> broadcast(std::span<const std::byte> /*mine*/, int root) override {
        return plane_->broadcast(std::as_bytes(std::span(broadcast_)), root);
    }
    Status barrier() override { return plane_->barrier(); }
    void close(bool after_failure) override { plane_->close(after_failure); }

private:
    std::unique_ptr<collectives::ControlPlane> plane_;
    const std::string broadcast_;
};

RanksResult hear(const std::string& words) {
    return run_ranks(2, [&](RankContext& context) {
        auto plane = context.open_control_plane();
        plane.status().throw_if_failed();
        OtherWords other(std::move(plane).value(), words);
        base::Config config = test_config();
        const auto said = core::share_settings(other, config);
        context.report("said", said.status().message());
        other.close(false);
    });
}

std::string announcement(std::string_view name = "", std::string_view value = "") {
    std::string text;
    for (const Setting& setting : base::settings()) {
        if (setting.scope == SettingScope::rank_zero || setting.scope == SettingScope::same) {
            text += fmt::format("{}={}", setting.name,
                                setting.name == name ? std::string(value) : base::value_text(setting, test_config()));
            text += '\0';
        }
    }
    return text;
}

}  // namespace

TEST_CASE("the settings that rank 0 announces are checked before they are used", "[threads]") {
    const auto said = [](const std::string& words) {
        const RanksResult result = hear(words);
        INFO(result.text());
        REQUIRE(result.passed());
        CHECK(result.ranks[0].value("said") == result.ranks[1].value("said"));
        return result.ranks[1].value("said");
    };
    CHECK(said(announcement()).empty());
    CHECK(said(announcement("RUEDA_SLOTS", "7")) ==
          "rank 0 has '7' for RUEDA_SLOTS; expected a whole number from 16 to 65536");
    CHECK(said(announcement("RUEDA_STALL_CHECK", "")) ==
          "rank 0 has '' for RUEDA_STALL_CHECK; expected 0, 1, true, false, yes, no, on or off");
    CHECK(said("") == fmt::format("rank 0 announced 0 settings where this rank has {}; expected the same version of "
                                  "Rueda on all ranks",
                                  std::ranges::count(announcement(), '\0')));
    CHECK(said("RUEDA_SLOTS=64") == "rank 0 announced its settings with 'RUEDA_SLOTS=64', which has no end");
    CHECK(said(announcement() + std::string("RUEDA_SPEED=9\0", 14)) ==
          "rank 0 has the setting 'RUEDA_SPEED=9', which is not known here; expected the same version of Rueda on all "
          "ranks");
}

namespace {

/// Runs a job in which every setting that may differ between ranks has a different value on each rank. All sums must be
/// right, and the job must end.
void train(RankContext& context, const std::vector<base::Config>& configs) {
    auto plane = context.open_control_plane();
    plane.status().throw_if_failed();
    auto client = RuntimeClient::create(configs[static_cast<std::size_t>(context.rank())], std::move(plane).value());
    client.status().throw_if_failed();
    const int size = client.value()->size();
    for (int step = 0; step < 20; ++step) {
        std::vector<std::vector<float>> tensors;
        std::vector<PendingPointer> pending;
        for (std::size_t i = 0; i < 40; ++i) {
            std::vector<float>& values = tensors.emplace_back(i * 700 + 1, static_cast<float>(context.rank() + step));
            const Tensor tensor{values.data(), DType::float32, {static_cast<std::int64_t>(values.size())}};
            pending.push_back(expect_value(
                client.value()->start_allreduce(fmt::format("{} of step {}", i, step), tensor, tensor, {}), "start"));
        }
        for (std::size_t i = 0; i < pending.size(); ++i) {
            expect_ok(pending[i]->wait(), "an allreduce");
            const auto sum = static_cast<float>(size * (size - 1) / 2 + size * step);
            RUEDA_RANK_CHECK(std::ranges::count(tensors[i], sum) == static_cast<std::ptrdiff_t>(tensors[i].size()));
        }
    }
    client.value()->shutdown().throw_if_failed();
}

std::vector<base::Config> mixed() {
    return settings_of({nullptr,
                        [](base::Config& config) {
                            config.fusion_threshold_bytes = 0;
                            config.hold_seconds = 0.01;
                            config.arena_limit_bytes = 8 * base::kMiB;
                            config.slots = 4096;
                            config.slots_max = 65536;
                            config.stall_check = false;
                        },
                        [](base::Config& config) {
                            config.resident_limit_bytes = 16 * base::kMiB;
                            config.slots = 16;
                            config.slots_max = 32;
                        }});
}

}  // namespace

TEST_CASE("a job whose ranks have different settings", "[threads]") {
    const auto configs = mixed();
    check_passed(run_ranks(3, [&](RankContext& context) { train(context, configs); }));
}

TEST_CASE("a job whose ranks have different settings, in processes", "[processes]") {
    const auto configs = mixed();
    check_passed(run_ranks(3, [&](RankContext& context) { train(context, configs); }, {.as = RanksAs::processes}));
}

TEST_CASE("settings that differ are also refused if ranks are processes", "[processes]") {
    const RanksResult result =
        share(settings_of({nullptr, [](base::Config& config) { config.compression = Compression::fp16; }, nullptr}),
              RanksAs::processes);
    INFO(result.text());
    REQUIRE(result.passed());
    for (const RankOutcome& rank : result.ranks) {
        CHECK(rank.value("said").starts_with("RUEDA_COMPRESSION is 'none' on ranks 0, 2 and 'fp16' on rank 1; "));
    }
}

}  // namespace rueda::tests

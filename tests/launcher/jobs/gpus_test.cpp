// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "launcher/gpus/gpus.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

namespace rueda::launcher {
namespace {

/// The file from which the fake NVML reads its GPUs.
class FakeGpus {
public:
    explicit FakeGpus(const std::string& lines) : file_("/tmp/rueda-fake-gpus-" + std::to_string(getpid())) {
        write(lines);
        setenv("FAKE_NVML", file_.c_str(), 1);
    }
    ~FakeGpus() {
        unsetenv("FAKE_NVML");
        unlink(file_.c_str());
    }
    FakeGpus(const FakeGpus&) = delete;
    FakeGpus& operator=(const FakeGpus&) = delete;

    void write(const std::string& lines) const { std::ofstream(file_) << lines; }

private:
    std::string file_;
};

TEST_CASE("GPUs have a utilization, memory and processes") {
    const FakeGpus fake("85 1000 4000 12 13\n10 500 4000\n");
    Gpus gpus(RUEDA_FAKE_NVML);
    const std::vector<GpuUse> uses = gpus.take(1);
    REQUIRE(uses.size() == 2);
    CHECK(uses[0].index == 0);
    CHECK(uses[0].utilization == Approx(0.85));
    CHECK(uses[0].used_bytes == 1000U);
    CHECK(uses[0].total_bytes == 4000U);
    CHECK(uses[0].pids == std::vector<std::int32_t>{12, 13});
    CHECK(uses[1].index == 1);
    CHECK(uses[1].utilization == Approx(0.10));
    CHECK(uses[1].pids.empty());
}

TEST_CASE("the utilization is the average of the looks since the last time") {
    constexpr std::int64_t kMillisecond = 1'000'000;
    const FakeGpus fake("20 0 1\n");
    Gpus gpus(RUEDA_FAKE_NVML);
    gpus.look(1000 * kMillisecond);
    fake.write("60 0 1\n");
    gpus.look(1099 * kMillisecond);  // ignored: the driver would still return the value of the last query
    CHECK(gpus.take(1099 * kMillisecond).at(0).utilization == Approx(0.2));
    gpus.look(1100 * kMillisecond);
    fake.write("90 0 1\n");
    CHECK(gpus.take(1200 * kMillisecond).at(0).utilization == Approx((0.6 + 0.9) / 2));
    CHECK_FALSE(gpus.take(1201 * kMillisecond).at(0).utilization);
}

TEST_CASE("values that a GPU does not tell are missing, and impossible ones are limited") {
    const FakeGpus fake("-1 -1 -1 7\n400 0 1\n");
    Gpus gpus(RUEDA_FAKE_NVML);
    const std::vector<GpuUse> uses = gpus.take(1);
    REQUIRE(uses.size() == 2);
    CHECK_FALSE(uses[0].utilization);
    CHECK_FALSE(uses[0].used_bytes);
    CHECK(uses[0].pids == std::vector<std::int32_t>{7});
    CHECK(uses[1].utilization == Approx(1));
}

TEST_CASE("without the library, without a driver and without a GPU there are none") {
    CHECK(Gpus("libdoes-not-exist.so.1").take(1).empty());
    CHECK(Gpus("libc.so.6").take(1).empty());  // this library has none of NVML's functions
    unsetenv("FAKE_NVML");
    Gpus without_driver(RUEDA_FAKE_NVML);
    without_driver.look(1);
    CHECK(without_driver.take(2).empty());
    const FakeGpus fake("");
    CHECK(Gpus(RUEDA_FAKE_NVML).take(1).empty());
}

}  // namespace
}  // namespace rueda::launcher

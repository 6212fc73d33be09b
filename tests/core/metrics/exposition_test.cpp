// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Tests the text that Prometheus fetches, and the endpoint that serves it.
#include "core/metrics/prometheus/exposition.hpp"

#include <prometheus/text_serializer.h>

#include <catch2/catch.hpp>
#include <string>

namespace rueda::tests {

using core::MetricFamily;
using core::MetricType;

TEST_CASE("families become text, and labels are escaped", "[unit]") {
    const std::vector<MetricFamily> families{
        {"rueda_a_total", "Help.", MetricType::counter, {{{{"kind", "a\"b\\c\nd"}}, 12}, {{}, 0.25}}},
        {"rueda_b", "More \\ help.", MetricType::gauge, {{{{"rank", "3"}}, -1}}}};
    const std::string text = prometheus::TextSerializer().Serialize(core::to_prometheus(families));
    CHECK(text ==
          "# HELP rueda_a_total Help.\n"
          "# TYPE rueda_a_total counter\n"
          "rueda_a_total{kind=\"a\\\"b\\\\c\\nd\"} 12\n"
          "rueda_a_total 0.25\n"
          "# HELP rueda_b More \\ help.\n"
          "# TYPE rueda_b gauge\n"
          "rueda_b{rank=\"3\"} -1\n");
}

TEST_CASE("an endpoint that cannot listen says why", "[unit]") {
    const auto collect = [] { return std::vector<MetricFamily>(); };
    const auto no_address = core::open_prometheus_endpoint({"127.0.0.1,8080", 9400}, collect);
    CHECK(no_address.status().code() == ErrorCode::unsupported);
    CHECK(no_address.status().message().find("no address in numbers") != std::string::npos);
    // The addresses 192.0.2.0/24 are reserved for documentation, so no interface of this machine has one.
    const auto foreign = core::open_prometheus_endpoint({"192.0.2.1", 9400}, collect);
    CHECK(foreign.status().code() == ErrorCode::unsupported);
    CHECK(foreign.status().message().find("cannot listen on 192.0.2.1:9400: ") != std::string::npos);
}

}  // namespace rueda::tests

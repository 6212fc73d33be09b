// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/metrics/prometheus/exposition.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <system_error>
#include <utility>

#include "base/system/thread_signals.hpp"
#include "base/unique_fd.hpp"

namespace rueda::core {
namespace {

/// Restores the process's action for SIGPIPE. The web server's threads make the process ignore this signal some time
/// after they have started. When these threads have ended, the destructor of this class restores the earlier action. It
/// does nothing if the program has installed a handler in the meantime.
class SigpipeRestored {
public:
    SigpipeRestored() { sigaction(SIGPIPE, nullptr, &before_); }
    SigpipeRestored(const SigpipeRestored&) = delete;
    SigpipeRestored& operator=(const SigpipeRestored&) = delete;
    ~SigpipeRestored() {
        struct sigaction now {};
        if (sigaction(SIGPIPE, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) {
            sigaction(SIGPIPE, &before_, nullptr);
        }
    }

private:
    struct sigaction before_ {};
};

/// Returns the reason why the endpoint cannot listen on the address, or "" if it can listen. The web server itself
/// would give no reason.
std::string why_not_listening(const MetricsAddress& address) {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons(static_cast<std::uint16_t>(address.port));
    const bool is_v4 = inet_pton(AF_INET, address.address.c_str(), &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, address.address.c_str(), &v6.sin6_addr) != 1) {
        return "this is no address in numbers";
    }
    const base::UniqueFd descriptor(::socket(is_v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int yes = 1;
    const auto* const place = is_v4 ? reinterpret_cast<const sockaddr*>(&v4) : reinterpret_cast<const sockaddr*>(&v6);
    const bool can =
        descriptor.value() >= 0 && ::setsockopt(descriptor.value(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) == 0 &&
        ::bind(descriptor.value(), place, is_v4 ? sizeof(v4) : sizeof(v6)) == 0 && ::listen(descriptor.value(), 1) == 0;
    return can ? "" : std::error_code(errno, std::system_category()).message();
}

class Source : public prometheus::Collectable {
public:
    explicit Source(CollectMetrics collect) : collect_(std::move(collect)) {}
    [[nodiscard]] std::vector<prometheus::MetricFamily> Collect() const override {
        try {
            return to_prometheus(collect_());
        } catch (const std::exception&) {
            return {};  // there is not enough memory now; the next request may succeed
        }
    }

private:
    CollectMetrics collect_;
};

class PrometheusEndpoint : public MetricsEndpoint {
public:
    PrometheusEndpoint(const std::string& listening, CollectMetrics collect)
        : source_(std::make_shared<Source>(std::move(collect))), exposer_(listening) {
        exposer_.RegisterCollectable(source_);
    }

private:
    // The source and the object that restores SIGPIPE's action are declared before the server, so they outlive the
    // server's threads.
    SigpipeRestored sigpipe_;
    std::shared_ptr<Source> source_;
    prometheus::Exposer exposer_;
};

}  // namespace

std::vector<prometheus::MetricFamily> to_prometheus(const std::vector<MetricFamily>& families) {
    std::vector<prometheus::MetricFamily> converted;
    converted.reserve(families.size());
    for (const MetricFamily& family : families) {
        const bool is_counter = family.type == MetricType::counter;
        prometheus::MetricFamily& to = converted.emplace_back();
        to.name = family.name;
        to.help = family.help;
        to.type = is_counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
        for (const MetricSample& sample : family.samples) {
            prometheus::ClientMetric& metric = to.metric.emplace_back();
            for (const MetricLabel& label : sample.labels) {
                metric.label.push_back({label.name, label.value});
            }
            (is_counter ? metric.counter.value : metric.gauge.value) = sample.value;
        }
    }
    return converted;
}

Result<std::unique_ptr<MetricsEndpoint>> open_prometheus_endpoint(const MetricsAddress& address,
                                                                  CollectMetrics collect) {
    const bool is_v6 = address.address.find(':') != std::string::npos;
    const std::string listening = is_v6 ? fmt::format("[{}]:{}", address.address, address.port)
                                        : fmt::format("{}:{}", address.address, address.port);
    // why_not_listening() also refuses address lists and host names, which the web server would accept.
    if (const std::string why = why_not_listening(address); !why.empty()) {
        return failure(ErrorCode::unsupported, "cannot listen on {}: {}", listening, why);
    }
    const base::ProgramSignalsBlocked guard;
    try {
        return std::unique_ptr<MetricsEndpoint>(std::make_unique<PrometheusEndpoint>(listening, std::move(collect)));
    } catch (const std::exception& error) {
        return failure(ErrorCode::unsupported, "cannot listen on {}: {}", listening, error.what());
    }
}

}  // namespace rueda::core

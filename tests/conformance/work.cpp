// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "tests/conformance/work.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "collectives/rows.hpp"
#include "tests/conformance/scenarios.hpp"

namespace rueda::tests {
namespace {

constexpr std::size_t kGroup = 3;

/// Numbers of elements. Depending on its size, a tensor travels in the announcement, or needs one chunk, a few chunks,
/// or many chunks. Between hosts, some tensors are exchanged whole, and others in one part per host.
constexpr std::array<std::int64_t, 11> kElements = {1, 40, 900, 300, 2500, 40, 300, 9001, 1, 900, 20'001};

bool is_float(DType dtype) {
    return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 || dtype == DType::float64 ||
           dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}

template <class T>
void append(Bytes& bytes, T value) {
    const std::size_t at = bytes.size();
    bytes.resize(at + sizeof(T));
    std::memcpy(bytes.data() + at, &value, sizeof(T));
}

/// Returns a number such that the sum of several of them depends on the order of the additions.
double float_value(std::mt19937_64& random, ReduceOp op) {
    const double mantissa = std::uniform_real_distribution<double>(0.7, 1.4)(random);
    const double sign = random() % 2 == 0 ? 1 : -1;
    return op == ReduceOp::product  ? sign * mantissa
           : op == ReduceOp::adasum ? mantissa * sign + 0.5
                                    : sign * std::ldexp(mantissa, static_cast<int>(random() % 11) - 7);
}

void append_value(Bytes& bytes, DType dtype, ReduceOp op, std::mt19937_64& random) {
    if (!is_float(dtype)) {
        const std::uint64_t bits = random();
        const std::uint64_t value = dtype == DType::boolean && bits % 4 == 0 ? 0 : bits >> 7U;
        const auto* const first = reinterpret_cast<const std::byte*>(&value);
        bytes.insert(bytes.end(), first, first + size_of(dtype));
        return;
    }
    const double value = float_value(random, op);
    switch (dtype) {
        case DType::float32:
            return append(bytes, static_cast<float>(value));
        case DType::float64:
            return append(bytes, value);
        case DType::float8_e4m3fn:
        case DType::float8_e5m2:
            return append(bytes, static_cast<std::uint8_t>(ops::test::encode(dtype, value)));
        default:
            return append(bytes, ops::test::encode(dtype, value));
    }
}

/// A combination of type and reduction that allreduce, reducescatter and reduce accept.
struct Reduced {
    DType dtype;
    ReduceOp op;
};
std::vector<Reduced> all_reduced() {
    std::vector<Reduced> all;
    for (std::int32_t dtype = 0; dtype < kDTypeCount; ++dtype) {
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
            const bool is_missing =
                static_cast<DType>(dtype) == DType::boolean && (op == ReduceOp::sum || op == ReduceOp::average);
            if (!is_missing) {
                all.push_back({static_cast<DType>(dtype), op});
            }
        }
    }
    return all;
}

class Works {
public:
    explicit Works(int sets) : sets_(sets) {}

    /// Adds the work for the first Place (a group of ranks). If there are several Places and the number of this work is
    /// a multiple of 3, also adds it for another Place.
    void add(Work work) {
        work.number = next_++;
        if (work.rows == 0) {
            work.rows = kElements[static_cast<std::size_t>(work.number) % kElements.size()];
        }
        all_.push_back(work);
        if (sets_ > 1 && work.number % 3 == 0) {
            work.set = 1 + work.number / 3 % (sets_ - 1);
            work.number = next_++;
            all_.push_back(work);
        }
    }
    [[nodiscard]] std::vector<Work> take() { return std::move(all_); }

private:
    const int sets_;
    int next_ = 0;
    std::vector<Work> all_;
};

void add_reductions(Works& works) {
    int turn = 0;
    int other = 0;
    for (const Reduced& reduced : all_reduced()) {
        const bool scales = is_float(reduced.dtype) && reduced.op != ReduceOp::product && ++turn % 3 == 0;
        const Reduce reduce{reduced.op, scales ? 0.5 : 1.0, scales ? 3.0 : 1.0};
        works.add({.kind = WorkKind::allreduce, .dtype = reduced.dtype, .reduce = reduce});
        if (++other % 2 == 0) {
            works.add({.kind = WorkKind::reducescatter, .dtype = reduced.dtype, .reduce = reduce, .columns = 3});
        } else {
            works.add({.kind = WorkKind::reduce, .dtype = reduced.dtype, .reduce = reduce});
        }
    }
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
        for (const std::int64_t rows : {3, 2000, 30'001}) {
            works.add({.kind = WorkKind::allreduce, .dtype = dtype, .reduce = {ReduceOp::adasum}, .rows = rows});
        }
    }
    for (const Compression compression : {Compression::fp16, Compression::bf16}) {
        for (const DType dtype : {DType::float32, DType::float64}) {
            for (const ReduceOp op :
                 {ReduceOp::sum, ReduceOp::average, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
                works.add({.kind = WorkKind::allreduce, .dtype = dtype, .reduce = {op, 1.0, 1.0, compression}});
            }
            works.add({.kind = WorkKind::grouped_allreduce,
                       .dtype = dtype,
                       .reduce = {ReduceOp::average, 1.0, 1.0, compression}});
        }
    }
}

void add_exchanges(Works& works) {
    constexpr std::array kDTypes = {DType::float32, DType::float8_e5m2, DType::bfloat16, DType::int16, DType::uint64};
    for (const WorkKind kind : {WorkKind::broadcast, WorkKind::allgather, WorkKind::alltoall, WorkKind::gather,
                                WorkKind::scatter, WorkKind::grouped_allgather, WorkKind::message}) {
        for (const DType dtype : kDTypes) {
            works.add({.kind = kind, .dtype = dtype, .columns = kind == WorkKind::message ? 7 : 2});
        }
    }
    for (const DType dtype : kDTypes) {
        works.add({.kind = WorkKind::grouped_allreduce, .dtype = dtype, .reduce = {ReduceOp::average}});
        works.add({.kind = WorkKind::grouped_reducescatter, .dtype = dtype, .reduce = {ReduceOp::sum}});
    }
}

}  // namespace

std::vector<std::vector<int>> Place::members_of_hosts() const {
    std::string names;
    std::vector<std::vector<int>> members;
    for (int member = 0; member < size(); ++member) {
        const char host = hosts[static_cast<std::size_t>(member)];
        if (names.find(host) == std::string::npos) {
            names += host;
            members.emplace_back();
        }
        members[names.find(host)].push_back(member);
    }
    return members;
}

std::string Work::name() const {
    constexpr std::array kKinds = {
        "allreduce", "broadcast",         "allgather",         "reducescatter",         "alltoall", "gather", "scatter",
        "reduce",    "grouped_allreduce", "grouped_allgather", "grouped_reducescatter", "message"};
    return fmt::format("{}.{}.{}.{}.{}.{}", number, kKinds[static_cast<std::size_t>(kind)], rueda::name_of(dtype),
                       rueda::name_of(reduce.op), rueda::name_of(reduce.compression), rows);
}

std::int64_t Work::rows_of(int member, int members) const {
    std::int64_t all = 0;
    switch (kind) {
        case WorkKind::allgather:
        case WorkKind::gather:
        case WorkKind::grouped_allgather:
            return (member + number) % 4 == 0 ? 0 : rows / (1 + (member + number) % 3) + member;
        case WorkKind::alltoall:
        case WorkKind::scatter:
            for (int to = 0; to < members; ++to) {
                all += split(member, to);
            }
            return all;
        default:
            return rows;
    }
}

std::int64_t Work::split(int from, int to) const {
    const int mixed = from * 7 + to * 3 + number;
    return mixed % 5 == 0 ? 0 : rows / (2 + mixed % 4) + mixed % 3;
}

std::size_t Work::tensors() const {
    return kind == WorkKind::grouped_allreduce || kind == WorkKind::grouped_allgather ||
                   kind == WorkKind::grouped_reducescatter
               ? kGroup
               : 1;
}

bool Work::is_the_same_for_all() const {
    return kind == WorkKind::allreduce || kind == WorkKind::broadcast || kind == WorkKind::allgather ||
           kind == WorkKind::grouped_allreduce || kind == WorkKind::grouped_allgather;
}

std::vector<Bytes> Work::inputs(int member, int members) const {
    std::mt19937_64 random(static_cast<std::uint64_t>(number) * 64 + static_cast<std::uint64_t>(member));
    const bool gives = kind != WorkKind::scatter || member == root(members);
    std::vector<Bytes> all;
    for (std::size_t i = 0; i < tensors(); ++i) {
        Bytes bytes;
        const std::int64_t elements = gives ? rows_of(member, members) * columns : 0;
        bytes.reserve(static_cast<std::size_t>(elements) * size_of(dtype));
        for (std::int64_t element = 0; element < elements; ++element) {
            append_value(bytes, dtype, reduce.op, random);
        }
        all.push_back(std::move(bytes));
    }
    return all;
}

std::vector<Work> all_works(int sets) {
    Works works(sets);
    add_reductions(works);
    add_exchanges(works);
    return works.take();
}

RunningWork::RunningWork(Client& client, const Work& work, const Circumstances& circumstances)
    : client_(client),
      work_(work),
      circumstances_(circumstances),
      name_(circumstances.name.empty() ? work.name() : circumstances.name) {
    buffers_.reserve(2 * work.tensors());
    if (work.kind == WorkKind::message) {
        start_message();
    } else if (work.tensors() > 1) {
        start_group();
    } else {
        start();
    }
}

/// Makes a tensor with this content. `content` is null for a tensor that receives a result.
Tensor RunningWork::tensor_for(std::size_t index, std::int64_t rows, const Bytes* content) {
    const bool resident = circumstances_.resident != (index % 2 == 1);
    buffers_.emplace_back(client_, work_.dtype, std::vector<std::int64_t>{rows, work_.columns}, resident);
    const Tensor& tensor = buffers_.back().tensor();
    if (content != nullptr && !content->empty()) {
        std::memcpy(tensor.data, content->data(), content->size());
    }
    return tensor;
}

/// Returns the number of rows of this rank's result.
std::int64_t RunningWork::result_rows() const {
    const int members = client_.size();
    const int me = client_.rank();
    std::int64_t rows = 0;
    switch (work_.kind) {
        case WorkKind::allgather:
        case WorkKind::gather:
            for (int member = 0; member < members; ++member) {
                rows += work_.rows_of(member, members);
            }
            return rows;
        case WorkKind::alltoall:
            for (int from = 0; from < members; ++from) {
                rows += work_.split(from, me);
            }
            return rows;
        case WorkKind::scatter:
            return work_.split(work_.root(members), me);
        case WorkKind::reducescatter:
            return collectives::rows_of_member(work_.rows, static_cast<std::uint32_t>(me),
                                               static_cast<std::uint32_t>(members))
                .count;
        default:
            return work_.rows;
    }
}

void RunningWork::start() {
    const int members = client_.size();
    const int root = work_.root(members);
    const bool is_root = client_.rank() == root;
    const Bytes content = work_.inputs(client_.rank(), members).front();
    const std::int64_t rows = static_cast<std::int64_t>(content.size() / size_of(work_.dtype)) / work_.columns;
    const Tensor in = tensor_for(0, rows, &content);
    if (work_.kind == WorkKind::broadcast && !is_root) {
        std::memset(in.data, 0x5A, in.bytes());
    }
    const bool has_result = is_root || (work_.kind != WorkKind::gather && work_.kind != WorkKind::reduce);
    const bool reduces = work_.kind == WorkKind::allreduce || work_.kind == WorkKind::reduce;
    const bool has_own_output = work_.kind == WorkKind::broadcast || (reduces && circumstances_.in_place);
    const bool of_rueda = !reduces && work_.kind != WorkKind::broadcast && circumstances_.in_place;
    if (has_result && has_own_output) {
        result_ = in;
    } else if (has_result && !of_rueda) {
        result_ = tensor_for(1, result_rows(), nullptr);
    }
    const Tensor* const out = result_.data != nullptr ? &result_ : nullptr;
    const Tensor result = out != nullptr ? *out : in;
    Splits splits;
    if (work_.kind == WorkKind::alltoall || (work_.kind == WorkKind::scatter && is_root)) {
        splits.emplace();
        for (int to = 0; to < members; ++to) {
            splits->push_back(work_.split(client_.rank(), to));
        }
    }
    const Form form = circumstances_.blocks ? Form::blocks : Form::starts;
    const auto called = [&]() -> Result<PendingPointer> {
        switch (work_.kind) {
            case WorkKind::allreduce:
                return client_.call_allreduce(form, name_, in, result, work_.reduce);
            case WorkKind::broadcast:
                return client_.call_broadcast(form, name_, in, root);
            case WorkKind::reduce:
                return client_.call_reduce(form, name_, in, result, root, work_.reduce);
            case WorkKind::reducescatter:
                return client_.call_reducescatter(form, name_, in, out, work_.reduce);
            case WorkKind::allgather:
                return client_.call_allgather(form, name_, in, out);
            case WorkKind::alltoall:
                return client_.call_alltoall(form, name_, in, splits, out);
            case WorkKind::gather:
                return client_.call_gather(form, name_, in, out, root);
            case WorkKind::scatter:
                return client_.call_scatter(form, name_, in, splits, out, root);
            default:
                throw RankCheckFailed(name_ + " is started elsewhere");
        }
    };
    pending_ = expect_value(called(), name_);
}

void RunningWork::start_group() {
    const std::vector<Bytes> inputs = work_.inputs(client_.rank(), client_.size());
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        tensors.push_back(tensor_for(i, work_.rows_of(client_.rank(), client_.size()), &inputs[i]));
    }
    pending_ = expect_value(
        work_.kind == WorkKind::grouped_allreduce   ? client_.start_group(name_, tensors, work_.reduce)
        : work_.kind == WorkKind::grouped_allgather ? client_.start_grouped_allgather(name_, tensors)
                                                    : client_.start_grouped_reducescatter(name_, tensors, work_.reduce),
        name_);
}

void RunningWork::start_message() {
    const int members = client_.size();
    const int me = client_.rank();
    const Bytes content = work_.inputs(me, members).front();
    const Tensor out = tensor_for(0, work_.rows, &content);
    result_ = tensor_for(1, work_.rows, nullptr);
    pending_ = expect_value(client_.start_receive(result_, (me + members - 1) % members, circumstances_.tag), name_);
    sent_ = expect_value(client_.start_send(out, (me + 1) % members, circumstances_.tag), name_);
}

bool RunningWork::poll() { return pending_->ready() && (sent_ == nullptr || sent_->ready()); }

Bytes RunningWork::finish() {
    expect_ok(pending_->wait(), name_);
    if (sent_ != nullptr) {
        expect_ok(sent_->wait(), name_);
    }
    for (const Buffer& buffer : buffers_) {
        buffer.check_margin(name_);
    }
    Bytes result;
    const auto add = [&result](const Tensor& tensor) {
        const auto* const begin = static_cast<const std::byte*>(tensor.data);
        result.insert(result.end(), begin, begin + tensor.bytes());
    };
    const bool is_root = client_.rank() == work_.root(client_.size());
    if (work_.kind == WorkKind::grouped_allreduce) {
        for (const Buffer& buffer : buffers_) {
            add(buffer.tensor());
        }
    } else if (result_.data != nullptr) {
        add(result_);
    } else if (is_root || (work_.kind != WorkKind::gather && work_.kind != WorkKind::reduce)) {
        for (std::size_t i = 0; i < work_.tensors(); ++i) {
            add(pending_->output(i));
        }
    }
    return result;
}

}  // namespace rueda::tests

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
#include "core/operations/requests.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "collectives/operation.hpp"
#include "collectives/rows.hpp"
#include "core/negotiation/impossible.hpp"
#include "rueda/types.hpp"

namespace rueda::core {
namespace {

using collectives::Operation;

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

/// Counts the elements of the whole tensor.
Status count_elements(const rueda_tensor& tensor, const char* which, std::uint64_t& count) {
    const std::span extents(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    const std::optional<std::uint64_t> counted = detail::count_of_elements(extents);
    if (counted) [[likely]] {
        count = *counted;
        return {};
    }
    const auto negative = std::find_if(extents.begin(), extents.end(), [](std::int64_t extent) { return extent < 0; });
    return negative != extents.end()
               ? failure(ErrorCode::invalid_argument,
                         "the {} tensor's dimension {} is {}; extents must not be negative", which,
                         negative - extents.begin(), *negative)
               : failure(ErrorCode::invalid_argument,
                         "the {} tensor's shape is {}, which is more elements than any memory holds; expected at most "
                         "2^60",
                         which, shape_text(extents));
}

/// Counts the elements of one row. Fails if no memory can hold so many elements, even if this tensor has no rows,
/// because other ranks may have rows of this shape. The extents must have been checked.
Status count_row(const rueda_tensor& tensor, std::uint64_t& count) {
    const std::span extents(tensor.shape, static_cast<std::size_t>(tensor.ndim));
    const std::optional<std::uint64_t> counted = detail::count_of_elements(extents.subspan(1));
    if (!counted) {
        return failure(ErrorCode::invalid_argument,
                       "the input tensor's shape is {}, and one of its rows would have more elements than any memory "
                       "holds; expected at most 2^60",
                       shape_text(extents));
    }
    count = *counted;
    return {};
}

Status check_tensor(const rueda_tensor& tensor, const char* which) {
    if (tensor.dtype < 0 || tensor.dtype >= kDTypeCount) {
        return failure(ErrorCode::invalid_argument, "the {} tensor's dtype is {}; expected 0 to {} (rueda_dtype)",
                       which, tensor.dtype, kDTypeCount - 1);
    }
    if (tensor.ndim < 0 || tensor.ndim > RUEDA_MAX_DIMENSIONS) {
        return failure(ErrorCode::invalid_argument, "the {} tensor has {} dimensions; expected 0 to {}", which,
                       tensor.ndim, RUEDA_MAX_DIMENSIONS);
    }
    if (tensor.ndim > 0 && tensor.shape == nullptr) {
        return failure(ErrorCode::invalid_argument, "the {} tensor has {} dimensions and no shape", which, tensor.ndim);
    }
    return {};
}

Status check_memory_of(const rueda_tensor& tensor, std::uint64_t elements, const char* which) {
    if (elements > 0 && tensor.data == nullptr) {
        return failure(ErrorCode::invalid_argument, "the {} tensor has {} elements and no data (a null pointer)", which,
                       elements);
    }
    return {};
}

Status check_same(const rueda_tensor& in, const rueda_tensor& out) {
    if (in.dtype != out.dtype) {
        return failure(ErrorCode::invalid_argument, "the input is {} and the output is {}; they must be the same",
                       name_of(static_cast<DType>(in.dtype)), name_of(static_cast<DType>(out.dtype)));
    }
    if (in.ndim != out.ndim || !std::equal(in.shape, in.shape + in.ndim, out.shape)) {
        return failure(ErrorCode::invalid_argument, "the shapes of input and output differ; they must be the same");
    }
    return {};
}

Status check_overlap(const rueda_tensor& in, const rueda_tensor& out, std::uint64_t bytes) {
    const auto a = reinterpret_cast<std::uintptr_t>(in.data);
    const auto b = reinterpret_cast<std::uintptr_t>(out.data);
    if (a != b && a < b + bytes && b < a + bytes) {
        return failure(ErrorCode::invalid_argument,
                       "input and output overlap in part; they must be the same memory or not overlap at all");
    }
    return {};
}

void describe(Operation operation, const rueda_tensor& tensor, Metadata& metadata) {
    metadata.operation = static_cast<std::uint8_t>(operation);
    metadata.dtype = static_cast<std::uint8_t>(tensor.dtype);
    metadata.ndim = static_cast<std::uint8_t>(tensor.ndim);
    for (std::int32_t i = 0; i < tensor.ndim; ++i) {
        metadata.shape[i] = tensor.shape[i];
    }
}

/// Copies the compression from the options. This function does not check whether the operation supports it;
/// note_refusal() does this later.
Status take_compression(const rueda_options& options, Request& request) {
    if (options.compression < RUEDA_COMPRESSION_NONE || options.compression > RUEDA_COMPRESSION_BF16) {
        return failure(ErrorCode::invalid_argument, "the compression is {}; expected 0 to 2 (rueda_compression)",
                       options.compression);
    }
    request.metadata.compression = static_cast<std::uint16_t>(options.compression);
    request.asked_compression = options.compression;
    return {};
}

/// A device of type RUEDA_CPU with this index means kRowsOfDevice. Only python/native/operations.cpp uses this index.
/// No program passes it by accident. The index is not -1, because PyTorch gives the CPU this index.
constexpr std::int32_t kRowsOfDeviceIndex = std::numeric_limits<std::int32_t>::min();

/// Copies the tensors' device from the options to the metadata. The caller of make_…() adds Request::device.
Status take_device(const rueda_options& options, std::uint8_t& type) {
    if (options.device == nullptr) [[likely]] {
        return {};
    }
    const rueda_device_stream& device = *options.device;
    const bool is_cpu = device.type == RUEDA_CPU;
    if (!is_cpu && device.type != RUEDA_CUDA) {
        return failure(ErrorCode::invalid_argument, "the type of the device is {}; expected 0 (the CPU) or 1 (CUDA)",
                       device.type);
    }
    if (device.index < 0 || (is_cpu && (device.index != 0 || device.stream != nullptr))) {
        return failure(ErrorCode::invalid_argument, "the index of the device is {}{}; expected {}", device.index,
                       is_cpu && device.stream != nullptr ? ", and it has a stream" : "",
                       is_cpu ? "0 and no stream for the CPU" : "0 or more");
    }
    type = static_cast<std::uint8_t>(device.type);
    return {};
}

/// Whether the options say that the operation is an exchange of numbers of rows (kRowsOfDevice).
bool exchanges_rows(Operation operation, const rueda_options& options) {
    return (operation == Operation::allgather || operation == Operation::alltoall) && options.device != nullptr &&
           options.device->type == RUEDA_CPU && options.device->index == kRowsOfDeviceIndex &&
           options.device->stream == nullptr;
}

/// Call this when the metadata is complete. If the operation is impossible, marks the request as refused and returns
/// true. Such a request needs no data: it is announced only to be refused.
bool note_refusal(Request& request) {
    if (is_possible(request.metadata)) [[likely]] {
        return false;
    }
    request.is_refused = true;
    request.count = 0;
    request.first_dimension = 0;
    request.splits.clear();
    return true;
}

bool is_root(const Metadata& metadata, int rank) { return metadata.root_is_foreign == 0 && metadata.root == rank; }

/// Fills in the request of an operation whose input and output have the same dtype and shape.
Status make_same_shape(Operation operation, const rueda_tensor& in, const rueda_tensor& out,
                       const rueda_options& options, bool reads_input, Request& request) {
    RUEDA_RETURN_IF_FAILED(check_tensor(in, "input"));
    RUEDA_RETURN_IF_FAILED(take_compression(options, request));
    RUEDA_RETURN_IF_FAILED(take_device(options, request.metadata.device));
    if (&in != &out) {
        RUEDA_RETURN_IF_FAILED(check_tensor(out, "output"));
        RUEDA_RETURN_IF_FAILED(check_same(in, out));
    }
    request.metadata.process_set = options.process_set;
    RUEDA_RETURN_IF_FAILED(count_elements(in, "input", request.count));
    if (reads_input) {
        RUEDA_RETURN_IF_FAILED(check_memory_of(in, request.count, "input"));
        RUEDA_RETURN_IF_FAILED(check_overlap(in, out, request.count * size_of(static_cast<DType>(in.dtype))));
    }
    RUEDA_RETURN_IF_FAILED(check_memory_of(out, request.count, "output"));
    describe(operation, in, request.metadata);
    request.input = static_cast<const std::byte*>(in.data);
    request.output = static_cast<std::byte*>(out.data);
    note_refusal(request);
    return {};
}

Status take_reduction(const rueda_options& options, Metadata& metadata) {
    if (options.reduce_op < RUEDA_AVERAGE || options.reduce_op > RUEDA_PRODUCT) {
        return failure(
            ErrorCode::invalid_argument,
            "the reduce operation is {}; expected 0 (average), 1 (sum), 2 (Adasum), 3 (min), 4 (max) or 5 (product)",
            options.reduce_op);
    }
    metadata.reduce_op = static_cast<std::uint8_t>(options.reduce_op);
    metadata.prescale = options.prescale;
    metadata.postscale = options.postscale;
    return {};
}

/// Stores the root in the metadata. `root` is a rank of the job. If it is a member of the set, the metadata hold the
/// root's number in the set.
void take_root(int root, std::span<const int> ranks, Metadata& metadata) {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), root);
    metadata.root_is_foreign = found == ranks.end() || *found != root ? 1 : 0;
    metadata.root = metadata.root_is_foreign != 0 ? root : static_cast<std::int32_t>(found - ranks.begin());
}

/// Fills in the input of an operation that divides or concatenates tensors along the first dimension. If the operation
/// is impossible, the request is complete after this function.
Status make_of_rows(Operation operation, const rueda_tensor& in, const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(check_tensor(in, "input"));
    RUEDA_RETURN_IF_FAILED(take_compression(options, request));
    if (exchanges_rows(operation, options)) {
        request.metadata.device = kRowsOfDevice;
    } else {
        RUEDA_RETURN_IF_FAILED(take_device(options, request.metadata.device));
    }
    request.metadata.process_set = options.process_set;
    std::uint64_t all = 0;
    RUEDA_RETURN_IF_FAILED(count_elements(in, "input", all));
    describe(operation, in, request.metadata);
    request.input = static_cast<const std::byte*>(in.data);
    if (in.ndim > 0) {
        RUEDA_RETURN_IF_FAILED(check_memory_of(in, all, "input"));
        RUEDA_RETURN_IF_FAILED(count_row(in, request.count));
        request.first_dimension = in.shape[0];
        request.metadata.shape[0] = collectives::may_differ_in_rows(operation) ? Metadata::kAnyExtent : in.shape[0];
    }
    note_refusal(request);
    return {};
}

/// Fills in the output that the caller gave for a reducescatter. The output receives the rows of this rank. It is
/// either separate memory, or the part of the input that contains these rows.
Status take_output_of_rows(const rueda_tensor& in, const rueda_tensor& out, int rank, int size, Request& request) {
    RUEDA_RETURN_IF_FAILED(check_tensor(out, "output"));
    if (in.dtype != out.dtype) {
        return failure(ErrorCode::invalid_argument, "the input is {} and the output is {}; they must be the same",
                       name_of(static_cast<DType>(in.dtype)), name_of(static_cast<DType>(out.dtype)));
    }
    const collectives::Rows rows =
        collectives::rows_of_member(in.shape[0], static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size));
    std::vector<std::int64_t> expected(in.shape, in.shape + in.ndim);
    expected.front() = rows.count;
    const std::span<const std::int64_t> found(out.shape, static_cast<std::size_t>(out.ndim));
    if (!std::equal(expected.begin(), expected.end(), found.begin(), found.end())) {
        return failure(ErrorCode::invalid_argument,
                       "the output's shape is {}; expected {}: the input has {} rows for {} ranks, and this one gets "
                       "{}",
                       shape_text(found), shape_text(expected), in.shape[0], size, rows.count);
    }
    RUEDA_RETURN_IF_FAILED(check_memory_of(out, static_cast<std::uint64_t>(rows.count) * request.count, "output"));
    const std::uint64_t row_bytes = request.count * size_of(static_cast<DType>(in.dtype));
    const std::uint64_t bytes = static_cast<std::uint64_t>(rows.count) * row_bytes;
    const auto input = reinterpret_cast<std::uintptr_t>(in.data);
    const auto output = reinterpret_cast<std::uintptr_t>(out.data);
    const bool overlap = input < output + bytes && output < input + static_cast<std::uint64_t>(in.shape[0]) * row_bytes;
    if (overlap && output != input + static_cast<std::uint64_t>(rows.begin) * row_bytes) {
        return failure(ErrorCode::invalid_argument,
                       "input and output overlap; the output must be the place of this rank's rows in the input (from "
                       "row {} on), or not overlap the input at all",
                       rows.begin);
    }
    request.output = static_cast<std::byte*>(out.data);
    return {};
}

/// Fills in the output that the caller gave for the rows of all ranks. Its rows must have the same shape as the rows of
/// the input. The number of rows is checked later, when all ranks have announced how many rows they have.
Status take_output_of_all(const rueda_tensor& in, const rueda_tensor& out, Request& request) {
    RUEDA_RETURN_IF_FAILED(check_tensor(out, "output"));
    if (in.dtype != out.dtype) {
        return failure(ErrorCode::invalid_argument, "the input is {} and the output is {}; they must be the same",
                       name_of(static_cast<DType>(in.dtype)), name_of(static_cast<DType>(out.dtype)));
    }
    if (in.ndim != out.ndim || !std::equal(in.shape + 1, in.shape + in.ndim, out.shape + 1)) {
        return failure(ErrorCode::invalid_argument,
                       "the output's shape is {} and the input's {}; they may differ in the first dimension only",
                       shape_text({out.shape, static_cast<std::size_t>(out.ndim)}),
                       shape_text({in.shape, static_cast<std::size_t>(in.ndim)}));
    }
    std::uint64_t count = 0;
    RUEDA_RETURN_IF_FAILED(count_elements(out, "output", count));
    RUEDA_RETURN_IF_FAILED(check_memory_of(out, count, "output"));
    request.output = static_cast<std::byte*>(out.data);
    request.output_rows = out.shape[0];
    return {};
}

bool input_overlaps_output(const Request& request) {
    const std::uint64_t input_bytes = static_cast<std::uint64_t>(request.first_dimension) * request.bytes();
    const std::uint64_t output_bytes = static_cast<std::uint64_t>(*request.output_rows) * request.bytes();
    const auto input = reinterpret_cast<std::uintptr_t>(request.input);
    const auto output = reinterpret_cast<std::uintptr_t>(request.output);
    return input_bytes > 0 && output_bytes > 0 && input < output + output_bytes && output < input + input_bytes;
}

Status take_splits(std::span<const std::int64_t> splits, int size, std::int64_t rows, Request& request) {
    if (splits.size() != static_cast<std::size_t>(size)) {
        return failure(ErrorCode::invalid_argument,
                       "there are {} splits; expected {}, the number of rows for each rank", splits.size(), size);
    }
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < splits.size(); ++i) {
        if (splits[i] < 0) {
            // The error names the index of the split, not a rank. The splits are in the order of the set's ranks, so
            // the index of a split may differ from the rank's number in the job.
            return failure(ErrorCode::invalid_argument, "splits[{}] is {}; a number of rows must not be negative", i,
                           splits[i]);
        }
        if (__builtin_add_overflow(sum, splits[i], &sum)) {
            return failure(ErrorCode::invalid_argument, "the sum of the splits does not fit in 64 bits");
        }
    }
    if (sum > rows) {
        return failure(ErrorCode::invalid_argument,
                       "the sum of the splits is {}; expected at most {}, the first dimension of the input", sum, rows);
    }
    request.first_dimension = sum;  // Rows beyond the sum of the splits are not sent. Horovod does the same.
    request.splits.assign(splits.begin(), splits.end());
    return {};
}

/// Fills in the splits. If `splits` is null, every rank gets equally many rows.
Status take_splits_or_even(const std::int64_t* splits, std::size_t split_count, int size, Request& request) {
    const std::int64_t rows = request.first_dimension;
    if (splits != nullptr) {
        return take_splits({splits, split_count}, size, rows, request);
    }
    if (rows % size != 0) {
        return failure(ErrorCode::invalid_argument,
                       "the first dimension of the input is {}, which {} ranks cannot share evenly: give splits, the "
                       "number of rows for each rank",
                       rows, size);
    }
    request.splits.assign(static_cast<std::size_t>(size), rows / size);
    return {};
}

/// Fills in an output that receives rows from other ranks, and must not overlap the input.
Status take_other_output(Operation operation, const rueda_tensor& in, const rueda_tensor& out, Request& request) {
    RUEDA_RETURN_IF_FAILED(take_output_of_all(in, out, request));
    if (input_overlaps_output(request)) {
        return failure(ErrorCode::invalid_argument,
                       "input and output overlap, which is not allowed in {} {}: give other memory for the output",
                       operation == Operation::alltoall ? "an" : "a", name_of(operation));
    }
    return {};
}

bool repeats_reduction(const Metadata& last, const rueda_options& options) {
    // take_reduction() copies the bits, so the bits are compared. A NaN equals a NaN with the same bits.
    const auto same_bits = [](double a, double b) {
        return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    };
    return options.reduce_op == last.reduce_op && same_bits(options.prescale, last.prescale) &&
           same_bits(options.postscale, last.postscale);
}

/// Whether the dtype and the extents from `first` on are those of the last operation.
bool repeats_extents(const Metadata& last, const rueda_tensor& tensor, int first) {
    if (tensor.dtype != last.dtype || tensor.ndim != last.ndim || (tensor.ndim > 0 && tensor.shape == nullptr)) {
        return false;
    }
    for (int i = first; i < last.ndim; ++i) {
        if (tensor.shape[i] != last.shape[i]) {
            return false;
        }
    }
    return true;
}

bool repeats_whole_tensors(const Request& last, const rueda_tensor& in, const rueda_tensor& out) {
    const auto same_tensor = [&](const rueda_tensor& tensor, const void* data) {
        return tensor.data == data && repeats_extents(last.metadata, tensor, 0);
    };
    return same_tensor(in, last.input) && (&in == &out ? last.input == last.output : same_tensor(out, last.output));
}

/// Whether both tensors have the memory and the row shape of the last operation, and these numbers of rows.
bool repeats_rows(const Request& last, const rueda_tensor& in, std::int64_t in_rows, const rueda_tensor& out,
                  std::int64_t out_rows) {
    return last.metadata.ndim > 0 && in.data == last.input && out.data == last.output &&
           repeats_extents(last.metadata, in, 1) && repeats_extents(last.metadata, out, 1) && in.shape[0] == in_rows &&
           out.shape[0] == out_rows;
}

/// Whether take_splits_or_even() would fill in the same splits again.
bool repeats_splits(const Request& last, const Arguments& arguments) {
    const rueda_tensor& in = *arguments.in;
    if (in.ndim < 1 || in.shape == nullptr) {
        return false;
    }
    if (arguments.splits != nullptr) {
        return in.shape[0] >= last.first_dimension &&
               std::equal(last.splits.begin(), last.splits.end(), arguments.splits,
                          arguments.splits + arguments.split_count);
    }
    const std::int64_t even = last.splits.front();
    return in.shape[0] == last.first_dimension &&
           std::all_of(last.splits.begin(), last.splits.end(), [even](std::int64_t split) { return split == even; });
}

}  // namespace

Status make_allreduce(const rueda_tensor& in, const rueda_tensor& out, const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(take_reduction(options, request.metadata));
    return make_same_shape(Operation::allreduce, in, out, options, /*reads_input=*/true, request);
}

Status make_broadcast(const rueda_tensor& in, const rueda_tensor& out, int root, std::span<const int> ranks, int rank,
                      const rueda_options& options, Request& request) {
    take_root(root, ranks, request.metadata);
    // Only the root needs memory for the input; on other ranks, the memory may be null.
    const bool reads_input = is_root(request.metadata, rank) || in.data != nullptr;
    return make_same_shape(Operation::broadcast, in, out, options, reads_input, request);
}

Status make_reduce(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                   const rueda_options& options, Request& request) {
    take_root(root, ranks, request.metadata);
    RUEDA_RETURN_IF_FAILED(take_reduction(options, request.metadata));
    const bool has_result = is_root(request.metadata, rank);
    if (has_result && out == nullptr) {
        return failure(ErrorCode::invalid_argument,
                       "the output of a reduce is NULL on its root, rank {}: give its memory there", root);
    }
    RUEDA_RETURN_IF_FAILED(
        make_same_shape(Operation::reduce, in, has_result ? *out : in, options, /*reads_input=*/true, request));
    request.output = has_result ? request.output : nullptr;
    return {};
}

Status make_gather(const rueda_tensor& in, const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                   const rueda_options& options, Request& request) {
    take_root(root, ranks, request.metadata);
    RUEDA_RETURN_IF_FAILED(make_of_rows(Operation::gather, in, options, request));
    const bool takes_output = is_root(request.metadata, rank) && out != nullptr && !request.is_refused;
    return takes_output ? take_other_output(Operation::gather, in, *out, request) : Status();
}

Status make_scatter(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                    const rueda_tensor* out, int root, std::span<const int> ranks, int rank,
                    const rueda_options& options, Request& request) {
    take_root(root, ranks, request.metadata);
    RUEDA_RETURN_IF_FAILED(check_tensor(in, "input"));
    const bool is_source = is_root(request.metadata, rank);
    const auto size = static_cast<int>(ranks.size());
    // On a rank other than the root, only the dtype of the input and the shape of its rows matter.
    std::vector<std::int64_t> shape(in.shape, in.shape + in.ndim);
    rueda_tensor rows = in;
    if (!is_source && !shape.empty()) {
        shape.front() = 0;
        rows.shape = shape.data();
        rows.data = nullptr;
    }
    RUEDA_RETURN_IF_FAILED(make_of_rows(Operation::scatter, rows, options, request));
    if (request.is_refused) {
        return {};
    }
    if (is_source) {
        RUEDA_RETURN_IF_FAILED(take_splits_or_even(splits, split_count, size, request));
    } else {
        request.splits.assign(ranks.size(), 0);
    }
    return out != nullptr ? take_other_output(Operation::scatter, in, *out, request) : Status();
}

Status make_allgather(const rueda_tensor& in, const rueda_tensor* out, const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(make_of_rows(Operation::allgather, in, options, request));
    return out != nullptr && !request.is_refused ? take_output_of_all(in, *out, request) : Status();
}

Status make_reducescatter(const rueda_tensor& in, const rueda_tensor* out, int rank, int size,
                          const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(take_reduction(options, request.metadata));
    RUEDA_RETURN_IF_FAILED(make_of_rows(Operation::reducescatter, in, options, request));
    return out != nullptr && !request.is_refused ? take_output_of_rows(in, *out, rank, size, request) : Status();
}

Status make_alltoall(const rueda_tensor& in, const std::int64_t* splits, std::size_t split_count,
                     const rueda_tensor* out, int size, const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(make_of_rows(Operation::alltoall, in, options, request));
    if (request.is_refused) {
        return {};
    }
    RUEDA_RETURN_IF_FAILED(take_splits_or_even(splits, split_count, size, request));
    return out != nullptr ? take_other_output(Operation::alltoall, in, *out, request) : Status();
}

Status check_output_of_all(const Request& request, std::string_view name, std::int64_t rows, std::int64_t rows_before) {
    if (*request.output_rows != rows) {
        const bool has_source = static_cast<Operation>(request.metadata.operation) == Operation::scatter;
        return failure(ErrorCode::invalid_argument,
                       "tensor '{}': the output's first dimension is {}; expected {}, the number of rows that come "
                       "from {}",
                       name, *request.output_rows, rows, has_source ? "the root" : "all ranks");
    }
    const std::byte* const own_place = request.output + static_cast<std::uint64_t>(rows_before) * request.bytes();
    if (input_overlaps_output(request) && request.input != own_place) {
        return failure(ErrorCode::invalid_argument,
                       "tensor '{}': input and output overlap; the input must be the place of this rank's rows in the "
                       "output (from row {} on), or not overlap it at all",
                       name, rows_before);
    }
    return {};
}

Result<MessageShape> check_message(const rueda_tensor* tensor, const char* which, int peer, bool may_be_anybody,
                                   std::span<const int> ranks, const rueda_options& options) {
    if (tensor == nullptr) {
        return failure(ErrorCode::invalid_argument, "the {} tensor is NULL", which);
    }
    if (options.slot != nullptr) {
        return failure(ErrorCode::invalid_argument,
                       "a send or a receive has no name, and a slot stands for one: leave it out");
    }
    std::uint8_t device = RUEDA_CPU;
    RUEDA_RETURN_IF_FAILED(take_device(options, device));
    RUEDA_RETURN_IF_FAILED(check_tensor(*tensor, which));
    std::uint64_t elements = 0;
    RUEDA_RETURN_IF_FAILED(count_elements(*tensor, which, elements));
    RUEDA_RETURN_IF_FAILED(check_memory_of(*tensor, elements, which));
    const bool is_anybody = may_be_anybody && peer == RUEDA_ANY_PEER;
    if (!is_anybody && !std::binary_search(ranks.begin(), ranks.end(), peer)) {
        return options.process_set == 0
                   ? failure(ErrorCode::invalid_argument, "the peer is rank {}; expected 0 to {}{}", peer, ranks.back(),
                             may_be_anybody ? ", or RUEDA_ANY_PEER (-1)" : "")
                   : failure(ErrorCode::invalid_argument,
                             "the peer is rank {}, which is not in process set {}; expected one of {}", peer,
                             options.process_set, fmt::join(ranks, ", "));
    }
    const auto dtype = static_cast<DType>(tensor->dtype);
    return MessageShape{dtype, elements * size_of(dtype), device != RUEDA_CPU};
}

Status make_barrier(const rueda_options& options, Request& request) {
    RUEDA_RETURN_IF_FAILED(take_compression(options, request));
    request.metadata.operation = static_cast<std::uint8_t>(Operation::barrier);
    request.metadata.process_set = options.process_set;
    note_refusal(request);
    return {};
}

Status no_place_for_result(const char* function) {
    return failure(
        ErrorCode::invalid_argument,
        "the output and the handle of {} are both NULL, but there is a result on this rank: give one of them",
        function);
}

Status check_given(const Arguments& arguments) {
    const bool needs_output =
        arguments.operation == Operation::allreduce || arguments.operation == Operation::broadcast;
    if (arguments.operation == Operation::barrier ||
        (arguments.in != nullptr && (arguments.out != nullptr || !needs_output))) [[likely]] {
        return {};
    }
    return failure(ErrorCode::invalid_argument, "the {} tensor is NULL; expected a pointer to a rueda_tensor",
                   arguments.in == nullptr ? "input" : "output");
}

Status make_request(const Arguments& arguments, const Membership& set, const rueda_options& options, Request& request) {
    const auto& [operation, in, out, root, splits, split_count, keeps_result] = arguments;
    const int size = static_cast<int>(set.ranks.size());
    switch (operation) {
        case Operation::allreduce:
            return make_allreduce(*in, *out, options, request);
        case Operation::broadcast:
            return make_broadcast(*in, *out, root, set.ranks, set.rank, options, request);
        case Operation::reduce:
            return make_reduce(*in, out, root, set.ranks, set.rank, options, request);
        case Operation::allgather:
            return make_allgather(*in, out, options, request);
        case Operation::reducescatter:
            return make_reducescatter(*in, out, set.rank, size, options, request);
        case Operation::alltoall:
            return make_alltoall(*in, splits, split_count, out, size, options, request);
        case Operation::gather:
            RUEDA_RETURN_IF_FAILED(make_gather(*in, out, root, set.ranks, set.rank, options, request));
            return keeps_result || out != nullptr || request.metadata.root != set.rank
                       ? Status()
                       : no_place_for_result("rueda_gather");
        case Operation::scatter:
            return make_scatter(*in, splits, split_count, out, root, set.ranks, set.rank, options, request);
        case Operation::barrier:
            return make_barrier(options, request);
        case Operation::join:
        case Operation::group:
            break;
    }
    return failure(ErrorCode::internal, "{} has no request of one tensor", name_of(operation));
}

bool repeats(const Request& last, const Arguments& arguments, const Membership& set, const rueda_options& options) {
    const Metadata& metadata = last.metadata;
    if (metadata.operation != static_cast<std::uint8_t>(arguments.operation) || arguments.out == nullptr ||
        last.output == nullptr || last.is_refused || last.member != 0 || metadata.device != RUEDA_CPU ||
        options.device != nullptr || options.process_set != metadata.process_set ||
        options.compression != last.asked_compression) {
        return false;
    }
    const rueda_tensor& in = *arguments.in;
    const rueda_tensor& out = *arguments.out;
    switch (arguments.operation) {
        case Operation::allreduce:
            return repeats_reduction(metadata, options) && repeats_whole_tensors(last, in, out);
        case Operation::broadcast:
            return metadata.root_is_foreign == 0 &&
                   set.ranks[static_cast<std::size_t>(metadata.root)] == arguments.root &&
                   repeats_whole_tensors(last, in, out);
        case Operation::allgather:
            return repeats_rows(last, in, last.first_dimension, out, last.output_rows.value_or(-1));
        case Operation::reducescatter:
            return repeats_reduction(metadata, options) &&
                   repeats_rows(last, in, last.first_dimension, out,
                                collectives::rows_of_member(last.first_dimension, static_cast<std::uint32_t>(set.rank),
                                                            static_cast<std::uint32_t>(set.ranks.size()))
                                    .count);
        case Operation::alltoall:
            return repeats_splits(last, arguments) &&
                   repeats_rows(last, in, in.ndim > 0 ? in.shape[0] : 0, out, last.output_rows.value_or(-1));
        default:
            return false;
    }
}

/// The maximum size of a struct of options, in bytes. No future version will have a larger struct.
constexpr std::size_t kLargestOptions = 4096;

/// Reads the caller's options. A newer version may have added options that this library does not know. These options
/// must be 0.
template <class Options>
Status take_options(const Options& given, Options& known, const char* type) {
    std::memcpy(&known, &given, std::min(given.struct_size, sizeof(known)));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(&given);
    for (std::size_t i = sizeof(known); i < given.struct_size; ++i) {
        if (bytes[i] != 0) {
            return failure(
                ErrorCode::invalid_argument,
                "{} has an option behind its first {} bytes, which this version of Rueda ({}) does not know: "
                "leave it 0, or use the version that the program was compiled with",
                type, sizeof(known), RUEDA_VERSION);
        }
    }
    return {};
}

Status effective_options(const rueda_options* given, rueda_options& completed, const rueda_options*& effective) {
    if (given != nullptr && given->struct_size == sizeof(rueda_options)) [[likely]] {
        effective = given;
        return {};
    }
    completed = RUEDA_OPTIONS_INIT;
    effective = &completed;
    if (given == nullptr) {
        return {};
    }
    constexpr std::size_t kSmallest = offsetof(rueda_options, process_set) + sizeof(completed.process_set);
    if (given->struct_size < kSmallest || given->struct_size > kLargestOptions) {
        return failure(ErrorCode::invalid_argument,
                       "rueda_options::struct_size is {}; expected {}: begin with RUEDA_OPTIONS_INIT",
                       given->struct_size, sizeof(rueda_options));
    }
    return take_options(*given, completed, "rueda_options");
}

Status effective_init_options(const rueda_init_options* given, rueda_init_options& effective) {
    if (given == nullptr) {
        return {};
    }
    constexpr std::size_t kSmallest = offsetof(rueda_init_options, process_set_ids) + sizeof(effective.process_set_ids);
    if (given->struct_size < kSmallest || given->struct_size > kLargestOptions) {
        return failure(ErrorCode::invalid_argument,
                       "rueda_init_options::struct_size is {}; expected {}: begin with RUEDA_INIT_OPTIONS_INIT",
                       given->struct_size, sizeof(rueda_init_options));
    }
    return take_options(*given, effective, "rueda_init_options");
}

Status naming_tensor(std::string_view name, const Status& made) {
    return name.empty() ? failure(made.code(), "an unnamed tensor: {}", made.message())
                        : failure(made.code(), "tensor '{}': {}", name, made.message());
}

Status check_name(const char* name) {
    if (name != nullptr && strnlen(name, RUEDA_MAX_NAME + 1) > RUEDA_MAX_NAME) {
        return failure(ErrorCode::invalid_argument, "the name '{}…' is longer than {} bytes",
                       std::string_view(name, 40), RUEDA_MAX_NAME);
    }
    return {};
}

}  // namespace rueda::core

// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// Checks at compile time that the C++ enumerators have the numbers of the C enumerators. layout.c checks the C numbers.
#include "rueda/checkpoints.h"
#include "rueda/error.hpp"
#include "rueda/rueda.h"
#include "rueda/rueda.hpp"
#include "rueda/training/checkpoint_manager.hpp"
#include "rueda/types.hpp"

namespace {

constexpr bool same(int c, auto cpp) { return c == static_cast<int>(cpp); }

static_assert(same(RUEDA_OK, rueda::ErrorCode::ok));
static_assert(same(RUEDA_INVALID_ARGUMENT, rueda::ErrorCode::invalid_argument));
static_assert(same(RUEDA_DUPLICATE_NAME, rueda::ErrorCode::duplicate_name));
static_assert(same(RUEDA_NOT_INITIALIZED, rueda::ErrorCode::not_initialized));
static_assert(same(RUEDA_MISMATCH, rueda::ErrorCode::mismatch));
static_assert(same(RUEDA_ABORTED, rueda::ErrorCode::aborted));
static_assert(same(RUEDA_TIMEOUT, rueda::ErrorCode::timeout));
static_assert(same(RUEDA_RESOURCE_EXHAUSTED, rueda::ErrorCode::resource_exhausted));
static_assert(same(RUEDA_UNSUPPORTED, rueda::ErrorCode::unsupported));
static_assert(same(RUEDA_INTERNAL, rueda::ErrorCode::internal));

static_assert(same(RUEDA_UINT8, rueda::DType::uint8));
static_assert(same(RUEDA_INT8, rueda::DType::int8));
static_assert(same(RUEDA_INT32, rueda::DType::int32));
static_assert(same(RUEDA_INT64, rueda::DType::int64));
static_assert(same(RUEDA_FLOAT16, rueda::DType::float16));
static_assert(same(RUEDA_BFLOAT16, rueda::DType::bfloat16));
static_assert(same(RUEDA_FLOAT32, rueda::DType::float32));
static_assert(same(RUEDA_FLOAT64, rueda::DType::float64));
static_assert(same(RUEDA_BOOL, rueda::DType::boolean));
static_assert(same(RUEDA_INT16, rueda::DType::int16));
static_assert(same(RUEDA_UINT16, rueda::DType::uint16));
static_assert(same(RUEDA_UINT32, rueda::DType::uint32));
static_assert(same(RUEDA_UINT64, rueda::DType::uint64));
static_assert(same(RUEDA_FLOAT8_E4M3FN, rueda::DType::float8_e4m3fn));
static_assert(same(RUEDA_FLOAT8_E5M2, rueda::DType::float8_e5m2));
static_assert(same(RUEDA_FLOAT8_E5M2 + 1, rueda::kDTypeCount));

static_assert(same(RUEDA_CPU, rueda::DeviceType::cpu));
static_assert(same(RUEDA_CUDA, rueda::DeviceType::cuda));

static_assert(same(RUEDA_AVERAGE, rueda::ReduceOp::average));
static_assert(same(RUEDA_SUM, rueda::ReduceOp::sum));
static_assert(same(RUEDA_ADASUM, rueda::ReduceOp::adasum));
static_assert(same(RUEDA_MIN, rueda::ReduceOp::min));
static_assert(same(RUEDA_MAX, rueda::ReduceOp::max));
static_assert(same(RUEDA_PRODUCT, rueda::ReduceOp::product));

static_assert(same(RUEDA_COMPRESSION_NONE, rueda::Compression::none));
static_assert(same(RUEDA_COMPRESSION_FP16, rueda::Compression::fp16));
static_assert(same(RUEDA_COMPRESSION_BF16, rueda::Compression::bf16));

static_assert(same(RUEDA_LOWER_IS_BETTER, rueda::training::BetterMetric::lower));
static_assert(same(RUEDA_HIGHER_IS_BETTER, rueda::training::BetterMetric::higher));

static_assert(RUEDA_ANY_PEER == rueda::any_peer);
static_assert(same(RUEDA_JOIN_AVERAGE_ALL, rueda::JoinAverage::all));
static_assert(same(RUEDA_JOIN_AVERAGE_ACTIVE, rueda::JoinAverage::active));

}  // namespace

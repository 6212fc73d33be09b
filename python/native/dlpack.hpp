// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
// The structures of DLPack, versions 0 and 1, with the layout in the DLPack specification
// (https://dmlc.github.io/dlpack).
#pragma once

#include <cstdint>

namespace rueda::python::dlpack {

inline constexpr const char* kName = "dltensor";
inline constexpr const char* kVersionedName = "dltensor_versioned";

// Device types whose memory the CPU can use.
inline constexpr std::int32_t kCpu = 1;
inline constexpr std::int32_t kPinnedCuda = 3;
inline constexpr std::int32_t kPinnedRocm = 11;

// Device types whose memory belongs to an NVIDIA GPU.
inline constexpr std::int32_t kCuda = 2;
inline constexpr std::int32_t kManagedCuda = 13;

// Type codes.
inline constexpr int kInteger = 0;
inline constexpr int kUnsigned = 1;
inline constexpr int kFloat = 2;
inline constexpr int kBfloat = 4;
inline constexpr int kBool = 6;
inline constexpr int kFloat8E4M3fn = 10;  // since DLPack 1.1
inline constexpr int kFloat8E5M2 = 12;    // since DLPack 1.1

inline constexpr std::uint64_t kReadOnly = 1;  // a bit of VersionedManaged::flags

struct Device {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides;  // the stride of each dimension, in elements; in version 0, null means that the tensor is
                            // dense
    std::uint64_t byte_offset;
};

struct Managed {
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};

struct VersionedManaged {
    std::uint32_t major;
    std::uint32_t minor;
    void* context;
    void (*deleter)(VersionedManaged*);
    std::uint64_t flags;
    Tensor tensor;
};

static_assert(sizeof(Tensor) == 48 && sizeof(Managed) == 64 && sizeof(VersionedManaged) == 80);

}  // namespace rueda::python::dlpack

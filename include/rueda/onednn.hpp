// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: 2026 The Rueda authors
/// @file
/// Converts oneDNN's memory to Rueda's tensors. Needs oneDNN 2 or 3; link DNNL::dnnl.
#pragma once

#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>

#include "rueda/rueda.hpp"

namespace rueda {

namespace detail {
inline DType dtype_of_onednn(dnnl::memory::data_type type) {
    switch (type) {
        case dnnl::memory::data_type::f32:
            return DType::float32;
        case dnnl::memory::data_type::f16:
            return DType::float16;
        case dnnl::memory::data_type::bf16:
            return DType::bfloat16;
        case dnnl::memory::data_type::s32:
            return DType::int32;
        case dnnl::memory::data_type::s8:
            return DType::int8;
        case dnnl::memory::data_type::u8:
            return DType::uint8;
        default:
            throw Unsupported("rueda/onednn.hpp does not take oneDNN's data type " +
                              std::to_string(static_cast<int>(type)) + "; it takes f32, f16, bf16, s32, s8 and u8");
    }
}

/// What tensor_of() needs to know about oneDNN memory. `elements_before` is the number of elements between the data
/// handle and the first element. It may differ from 0 for a submemory, whose data handle points to the beginning of the
/// whole memory.
struct OnednnLayout {
    DType dtype = DType::float32;
    Shape shape;
    std::int64_t elements_before = 0;
    bool is_row_major = false;
};

inline OnednnLayout layout_of(const dnnl::memory::desc& description) {
#if DNNL_VERSION_MAJOR >= 3
    const dnnl::memory::dims extents = description.get_dims();
    const dnnl::memory::dims strides = description.get_strides();
    const dnnl::memory::dims padded = description.get_padded_dims();
    const bool is_plain = description.get_format_kind() == dnnl::memory::format_kind::blocked &&
                          description.get_inner_nblks() == 0 && padded == extents;
    const DType dtype = dtype_of_onednn(description.get_data_type());
    const std::int64_t elements_before = description.get_submemory_offset();
#else
    const dnnl_memory_desc_t& c = description.data;
    const auto ndim = static_cast<std::size_t>(c.ndims);
    const dnnl::memory::dims extents(c.dims, c.dims + ndim);
    const dnnl::memory::dims padded(c.padded_dims, c.padded_dims + ndim);
    const auto& blocking = c.format_desc.blocking;  // this member is valid only if the format kind is `blocked`
    const bool is_plain = c.format_kind == dnnl_blocked && blocking.inner_nblks == 0 && padded == extents;
    const dnnl::memory::dims strides(is_plain ? dnnl::memory::dims(blocking.strides, blocking.strides + ndim)
                                              : dnnl::memory::dims(ndim, 0));
    const DType dtype = dtype_of_onednn(description.data_type());
    const std::int64_t elements_before = c.offset0;
#endif
    bool is_row_major = is_plain;
    std::int64_t stride = 1;
    for (std::size_t i = extents.size(); is_row_major && i-- > 0;) {
        is_row_major = extents[i] == 1 || strides[i] == stride;
        stride *= extents[i];
    }
    return {dtype, Shape(std::span<const std::int64_t>(extents.data(), extents.size())), elements_before, is_row_major};
}
}  // namespace detail

/// Returns the memory of a CPU engine as a tensor with the same dimensions, without a copy. The layout must be plain
/// and row-major (format_tag::abcd and similar ones); otherwise throws InvalidArgument. Reorder memory with a blocked
/// layout into a plain layout first. oneDNN chooses blocked layouts by the processor, so the layouts may differ between
/// ranks. Throws Unsupported for a data type that Rueda does not have. For a submemory (submemory_desc()), the tensor
/// is the part that the submemory describes. This part must be dense, as a range of rows is; a range of columns is not
/// dense.
///
/// To use memory that the ranks of a host share (resident memory), let Rueda allocate it and pass it to oneDNN. Rueda's
/// memory must outlive the oneDNN object:
///
///     dnnl::memory weights(description, engine, rueda::allocate(description.get_size()));
///     rueda::allreduce("weights", rueda::tensor_of(weights));
[[nodiscard]] inline TensorView tensor_of(const dnnl::memory& memory) {
    if (memory.get_engine().get_kind() != dnnl::engine::kind::cpu) {
        throw InvalidArgument("the oneDNN memory is not that of a CPU; reorder it into memory of a CPU engine first");
    }
    const detail::OnednnLayout layout = detail::layout_of(memory.get_desc());
    if (!layout.is_row_major) {
        throw InvalidArgument(
            "the oneDNN memory is not plain and row-major, so that other ranks may have another layout; reorder it "
            "into a plain one (format_tag::abcd and its like) first");
    }
    auto* const whole = static_cast<std::byte*>(memory.get_data_handle());
    return {whole + static_cast<std::size_t>(layout.elements_before) * size_of(layout.dtype), layout.dtype,
            layout.shape};
}

}  // namespace rueda

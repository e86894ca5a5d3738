/// Reading one tensor from a .npy file, the format of NumPy's np.save and np.load.
/// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
///
///   6 bytes   "\x93NUMPY", then 2 bytes of version: 1.0, 2.0 or 3.0
///   2 bytes   N, the header's length, little-endian (4 bytes from version 2.0 on)
///   N bytes   a Python literal: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
///   the rest  the elements
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

#include "tensor/tensor.h"

namespace fovea {

/// Reads a tensor of type <f4, <f8, <i4, <i8, |u1 or |b1 (f32, f64, i32, i64, u8, bool), or <f2, which becomes f32, and
/// of at most 8 dimensions. A file in Fortran order gives a tensor with column-major strides. Throws Error, one line
/// with the file's name, for other types (NumPy has no bf16), big-endian files and files that break the format. The
/// header and the file's size are checked before the tensor is allocated.
Tensor read_npy(const std::filesystem::path& path);

/// Like read_npy(), from the contents of a file in memory. Error messages begin with `source`.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& source);

}  // namespace fovea

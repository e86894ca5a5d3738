/// One tensor in a file, as NumPy's np.save and np.load have it.
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

/// Reads <f4, <f8, <i4, <i8, |u1 and |b1 (f32, f64, i32, i64, u8, bool) of at most 8 dimensions. A file in Fortran
/// order becomes a tensor with such strides. Throws Error, one line with the file's name, for other types (NumPy has no
/// bf16), big-endian files, and whatever breaks the format; all of that is checked before the tensor is allocated.
Tensor read_npy(const std::filesystem::path& path);

/// The same from memory; `source` stands for the file's name.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& source);

/// Writes what np.save would write, byte for byte, in one step (AtomicFile): views in row-major order, a CUDA tensor
/// from a copy. Throws Error for bf16, which NumPy does not have.
void write_npy(const std::filesystem::path& path, const Tensor& tensor);

}  // namespace fovea

/// Named tensors in a file, as checkpoints have them: https://huggingface.co/docs/safetensors.
///
///   8 bytes   N, the header's length, little-endian
///   N bytes   JSON: {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3],
///             "data_offsets": [begin, end]}, ...}
///   the rest  the tensors' bytes, row-major and without gaps; offsets count from here
#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace fovea {

struct Safetensors {
  std::string source;                                   ///< the file's name, for messages
  std::vector<std::pair<std::string, Tensor>> tensors;  ///< in the header's order
  std::map<std::string, std::string> metadata;

  /// The tensor of that name, or nullptr. A search through all of them.
  const Tensor* find(std::string_view name) const;
  /// The tensor of that name; throws Error with the file's name and the nearest name there is.
  const Tensor& at(std::string_view name) const;
};

/// Reads every tensor of the file into memory of its own: F32, F64, BF16, I64, I32, U8 and BOOL, of at most 8
/// dimensions. Throws Error, one line with the file's name and the tensor's, for other types and for whatever breaks
/// the format: JSON that is not a header, names given twice, offsets that leave the file, overlap, leave gaps or do not
/// fit the shape. All of that is checked before any tensor is allocated.
Safetensors read_safetensors(const std::filesystem::path& path);

/// The same from memory; `source` stands for the file's name.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

/// Writes the tensors, views in row-major order, CUDA tensors from a copy, in one step (AtomicFile). The header keeps
/// their order; the data lies by element size, largest first, so that each tensor is aligned for readers that map the
/// file. Throws Error for names that are given twice, are not UTF-8 or hold a NUL, and for undefined tensors.
void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace fovea

/// Reading and writing named tensors as a .safetensors file, the format of checkpoints:
/// https://huggingface.co/docs/safetensors
///
///   8 bytes   N, the header's length, little-endian
///   N bytes   JSON: {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2, 3],
///             "data_offsets": [begin, end]}, ...}
///   the rest  the tensors' bytes, row-major and without gaps; data_offsets count from here
///
/// Files written here also have checksums, in an entry of the metadata that other programs ignore.
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

/// The contents of a .safetensors file.
struct Safetensors {
  std::string source;                                   ///< the file's name, for messages
  std::vector<std::pair<std::string, Tensor>> tensors;  ///< in the header's order
  std::map<std::string, std::string> metadata;

  /// The tensor called `name`, or nullptr if there is none. Searches linearly.
  const Tensor* find(std::string_view name) const;
  /// The tensor called `name`. If there is none, throws Error with the file's name and the most similar tensor name.
  const Tensor& at(std::string_view name) const;
};

/// Reads every tensor of the file into newly allocated memory. Types F32, F64, BF16, I64, I32, U8 and BOOL, and F16,
/// which becomes f32; at most 8 dimensions. Throws Error, one line with the names of the file and of the tensor, for
/// other types and for files that break the format: the JSON is not a header, a name occurs twice, or data_offsets
/// leave the file, overlap, leave gaps or do not fit the shape. The whole header is checked before any tensor is
/// allocated. If the file has checksums, as those of write_safetensors() have, throws Error also where a checksum does
/// not match: some byte has changed since.
Safetensors read_safetensors(const std::filesystem::path& path);

/// Like read_safetensors(), from the contents of a file in memory. Error messages begin with `source`.
Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

/// Writes the tensors, each in row-major order, and replaces the file in one step (AtomicFile). CUDA tensors are copied
/// to the CPU first. The header lists the tensors in the given order; their data is sorted by element size, largest
/// first, so that each tensor is aligned in a file mapped into memory. The metadata gets one more entry, the checksums
/// of the header and of each tensor; read_safetensors() checks and removes it. Throws Error for undefined tensors, and
/// for names that occur twice, are "__metadata__", are not UTF-8 or contain a NUL.
void write_safetensors(const std::filesystem::path& path, const std::vector<std::pair<std::string, Tensor>>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace fovea

/// Where the readers of tensor files get their bytes from, and what they have in common.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "tensor/tensor.h"

namespace fovea {

/// A file or a piece of memory, of known size and read in parts: nothing needs to be held twice.
class ByteSource {
 public:
  /// A regular file. Throws Error for anything else; a pipe is not waited for.
  explicit ByteSource(const std::filesystem::path& path);
  /// Memory that outlives this. `name` stands where messages have a file's name.
  ByteSource(std::span<const std::byte> bytes, std::string name);
  ~ByteSource();
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  const std::string& name() const { return name_; }
  std::size_t size() const { return size_; }
  /// Copies [offset, offset + bytes), which must lie inside.
  void read(std::size_t offset, void* to, std::size_t bytes) const;

 private:
  std::string name_;
  std::size_t size_ = 0;
  int descriptor_ = -1;  ///< -1: memory
  std::span<const std::byte> memory_;
};

/// The bytes that a tensor takes in a file. Throws, naming `what`, where no file could be that large.
std::size_t stored_bytes(std::string_view what, const Shape& shape, DType dtype);

/// Fills a dense tensor with the bytes at `offset`, in the order in which the tensor has them in memory. Throws, naming
/// `what`, for a bool that is neither 0 nor 1.
void read_elements(const ByteSource& source, std::size_t offset, std::string_view what, const Tensor& to);

}  // namespace fovea

#include "tensor/format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // The input as it is, and as a header whose length is right, before a few bytes of tensors.
  auto whole = std::as_bytes(std::span(data, size));
  fovea::accept_or_explain([&] { fovea::parse_safetensors(whole, "fuzz"); });
  constexpr std::size_t tensors = 24;
  std::vector<std::byte> file(8 + size + tensors);
  std::uint64_t length = size;
  std::memcpy(file.data(), &length, 8);
  std::copy(whole.begin(), whole.end(), file.begin() + 8);
  fovea::accept_or_explain([&] { fovea::parse_safetensors(file, "fuzz"); });
  return 0;
}

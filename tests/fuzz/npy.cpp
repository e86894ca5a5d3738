#include "tensor/format/npy.h"

#include <cstddef>
#include <span>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fovea::accept_or_explain([&] { fovea::parse_npy(std::as_bytes(std::span(data, size)), "fuzz"); });
  return 0;
}

/// The headers that the library carries as text, for kernels that are compiled while the program runs.
#pragma once
#include <span>

namespace fovea::cuda {

struct CarriedHeader {
  const char* name;  ///< as the text includes it
  const char* text;
};

extern const std::span<const CarriedHeader> carried_headers;

}  // namespace fovea::cuda

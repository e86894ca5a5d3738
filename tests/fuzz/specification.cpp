#include <string>

#include "attention/registry.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text(reinterpret_cast<const char*>(data), size);
  fovea::accept_or_explain([&] { fovea::attention_factory(text); });
  return 0;
}

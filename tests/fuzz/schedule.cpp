#include "nn/schedule.h"

#include <cstdlib>
#include <string>

#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  fovea::accept_or_explain([&] {
    const std::string read = fovea::Schedule::parse(text).str();
    if (fovea::Schedule::parse(read).str() != read) std::abort();
  });
  return 0;
}

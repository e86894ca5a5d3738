/// What fuzzing looks for: input that is neither accepted nor refused in one line, and what the sanitizers see.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace fovea {

template <class Read>
void accept_or_explain(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    for (unsigned char c : std::string_view(error.what()))
      if (c < 0x20) std::abort();
  }
}

}  // namespace fovea

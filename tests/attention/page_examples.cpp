// Compiles and registers the example methods of README.md and attention/README.md, as a reader would add them, so that
// the tests of the registry run on them. page_examples.py writes the header from the pages.
#include "page_examples.h"

#include <cstdlib>
#include <string>

namespace {

/// Registers the methods, and lets the tests run on these only.
const bool registered = [] {
  std::string names;
  for (fovea::MethodEntry& entry : methods_of_pages()) {
    names += (names.empty() ? "" : ";") + std::string(entry.card.name);
    fovea::register_method(std::move(entry));
  }
  return setenv("FOVEA_TEST_METHODS", names.c_str(), 1) == 0;
}();

}  // namespace

// Compiles the C++ blocks of all pages, which pages.py writes into a header, and runs them: the complete methods are
// registered, as a reader would add them, so that the tests of the registry run on them alone.
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include <boost/test/unit_test.hpp>

#include "attention/registry.h"
#include "autograd/gradcheck.h"
#include "autograd/tape.h"
#include "nn/layers.h"
#include "nn/optimizer.h"
#include "page_blocks.h"

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

/// Collects what is written to std::cout, as long as it lives.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  /// Returns what was written since the last call.
  std::string take() {
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(pages)

BOOST_AUTO_TEST_CASE(statements_print_what_the_page_shows) {
  int blocks = 0;
  Printed printed;
  run_statements([&](const std::string& place, const std::string& expected) {
    ++blocks;
    BOOST_TEST(printed.take() == expected, place << " prints something else than the page shows");
  });
  BOOST_TEST(blocks > 0);
}

BOOST_AUTO_TEST_SUITE_END()

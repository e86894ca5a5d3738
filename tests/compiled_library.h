/// Generated C++ code, compiled and run by tests.
#pragma once
#include <cstdlib>
#include <fstream>
#include <string>

#include <boost/test/unit_test.hpp>
#include <dlfcn.h>

#include "tests/files.h"

namespace fovea::test {

/// Runs the C++ compiler with these arguments in the root of the sources, and fails the test if it finds an error.
inline void run_compiler(const std::string& arguments) {
  const char* compiler = std::getenv("FOVEA_TEST_COMPILER");
  const std::string command = fmt::format("{} -std=c++20 {}", compiler ? compiler : "c++", arguments);
  BOOST_REQUIRE_MESSAGE(std::system(command.c_str()) == 0, command);
}

/// A shared library that the C++ compiler makes of a text, and its functions, which are extern "C".
class CompiledLibrary {
 public:
  /// The text may include the headers of the sources. `options` are further arguments of the compiler.
  explicit CompiledLibrary(const std::string& text, const std::string& options = "-O0") {
    const std::filesystem::path source = folder_.write("text.cpp", text), library = folder_ / "text.so";
    run_compiler(fmt::format("{} -fPIC -shared -I. -o '{}' '{}'", options, library.string(), source.string()));
    library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    BOOST_REQUIRE_MESSAGE(library_, dlerror());
  }
  ~CompiledLibrary() { dlclose(library_); }
  CompiledLibrary(const CompiledLibrary&) = delete;
  CompiledLibrary& operator=(const CompiledLibrary&) = delete;

  template <class Function>
  Function* function(const std::string& name) const {
    void* found = dlsym(library_, name.c_str());
    BOOST_REQUIRE_MESSAGE(found, name);
    return reinterpret_cast<Function*>(found);
  }

 private:
  Folder folder_;
  void* library_ = nullptr;
};

}  // namespace fovea::test

/// Methods outside of fovea's source: shared objects, which all programs load with --methods.
///
/// The header that defines a method ends with one line, which names the classes of all its methods:
///
///   extern "C" const fovea::MethodLibrary fovea_methods = fovea::methods_of<fovea::Decay>;
///
/// `build/experiments/method decay.h` compiles the header, after this one, to libdecay.so.
#pragma once
#include <cstdint>
#include <filesystem>
#include <vector>

#include "attention/headers_identity.h"
#include "attention/registry.h"
#include "tensor/cpu/simd.h"

namespace fovea {

/// The record that a shared object of methods exports under the name `fovea_methods`. An object that was compiled
/// against other headers, or for vectors of another width, does not fit the library: load_methods() compares the first
/// two members before it calls the third one. Variables with static storage are constructed earlier, so a shared object
/// must have none whose constructor calls fovea.
struct MethodLibrary {
  std::uint64_t headers, bytes_of_vectors;
  std::vector<MethodEntry> (*methods)();
};

template <class... Methods>
std::vector<MethodEntry> entries_of() {
  return {method<Methods>()...};
}
template <class... Methods>
inline constexpr MethodLibrary methods_of{headers_identity, vector_bytes, entries_of<Methods...>};

/// Registers the methods of a shared object; a second call for the same file does nothing. Not thread-safe, as
/// register_method() is not. Throws Error if the file is missing, is no shared object of methods, does not fit this
/// library, or has a method whose name is taken.
void load_methods(const std::filesystem::path& library);

}  // namespace fovea

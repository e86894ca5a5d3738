#include "attention/method_library.h"

#include <set>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "tensor/error.h"

namespace fovea {

namespace {

constexpr const char* compile_again = "compile it again with the script `method`";

/// Opens the shared object, which stays open: the registry refers to its code. Functions that this library lacks are
/// no error yet, so that the comparison of the headers can name the cause.
void* opened(const std::filesystem::path& library) {
  require(std::filesystem::is_regular_file(library), "it is not a file, so it holds no shared object");
  if (void* handle = ::dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL)) return handle;
  const std::string reason = ::dlerror();
  require(reason.find("undefined symbol") == std::string::npos, "it was compiled for another version of fovea; {} ({})",
          compile_again, reason);
  fail("it is not a shared object of this machine ({})", reason);
}

void register_methods(void* handle) {
  const auto* methods = static_cast<const MethodLibrary*>(::dlsym(handle, "fovea_methods"));
  require(methods,
          "it exports no methods; the header ends with `extern \"C\" const fovea::MethodLibrary fovea_methods = "
          "fovea::methods_of<NAME>;`");
  require(methods->headers == headers_identity, "it was compiled for another version of fovea; {}", compile_again);
  require(methods->bytes_of_vectors == vector_bytes, "it was compiled for vectors of {} bytes, fovea for {}; {}",
          methods->bytes_of_vectors, vector_bytes, compile_again);
  std::vector<MethodEntry> entries = methods->methods();
  std::set<std::string> names;
  for (const MethodEntry& entry : entries) {  // before any is registered, so that an error leaves none
    require_free_name(entry.card.name);
    require(names.insert(entry.card.name).second, "it has two methods '{}'", entry.card.name);
  }
  for (MethodEntry& entry : entries) register_method(std::move(entry));
}

}  // namespace

void load_methods(const std::filesystem::path& library) {
  require(!library.empty(), "the name of a shared object of methods is empty");
  static std::set<std::filesystem::path> loaded;
  std::error_code failure;
  const std::filesystem::path file = std::filesystem::canonical(library, failure);
  if (loaded.contains(file)) return;
  try {
    require(!failure, "{}",
            failure == std::errc::no_such_file_or_directory ? "there is no such file" : failure.message().c_str());
    register_methods(opened(file));
  } catch (const Error& error) {
    fail("{}: {}", library.string(), error.what());
  }
  loaded.insert(file);
}

}  // namespace fovea

#include "cuda/compiled.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>
#include <nvrtc.h>

#include "cuda/carried_headers.h"
#include "cuda/code_cache.h"
#include "cuda/grid.h"
#include "cuda/stream.h"
#include "tensor/storage.h"

namespace fovea::cuda {

namespace {

// ---- NVRTC ----

void check_nvrtc(nvrtcResult status, const char* name) {
  if (status != NVRTC_SUCCESS) fail("cuda: {}: NVRTC: {}", name, nvrtcGetErrorString(status));
}

/// The first line of the log that reports an error, or else its first line.
std::string first_error(const std::string& log) {
  std::size_t begin = log.find("error");
  begin = begin == std::string::npos ? 0 : log.rfind('\n', begin) + 1;
  return log.substr(begin, std::min(log.find('\n', begin), log.size()) - begin);
}

/// A program of NVRTC: one text with the headers that it may include.
class Program {
 public:
  Program(const char* name, const std::string& text) : name_(name) {
    std::vector<const char*> names, texts;
    for (const CarriedHeader& header : carried_headers) {
      names.push_back(header.name);
      texts.push_back(header.text);
    }
    check_nvrtc(
        nvrtcCreateProgram(&program_, text.c_str(), name, static_cast<int>(names.size()), texts.data(), names.data()),
        name);
  }
  ~Program() { nvrtcDestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// `target` is "sm_90", machine code, or "compute_90", code for the driver. Fills `use` unless it is null.
  CompiledCode compile(const std::string& target, KernelUse* use) {
    const std::string architecture = "--gpu-architecture=" + target;
    std::vector<const char*> options(std::begin(compile_options), std::end(compile_options));
    options.push_back(architecture.c_str());
    if (use) options.push_back("--ptxas-options=-v");
    const nvrtcResult status = nvrtcCompileProgram(program_, static_cast<int>(options.size()), options.data());
    if (status == NVRTC_ERROR_COMPILATION) fail("cuda: {}: NVRTC: {}", name_, first_error(log()));
    check_nvrtc(status, name_);
    if (use) *use = {number_before(" registers"), number_before(" bytes spill stores")};
    const bool is_machine_code = target.starts_with("sm_");
    std::size_t bytes = 0;
    check_nvrtc(is_machine_code ? nvrtcGetCUBINSize(program_, &bytes) : nvrtcGetPTXSize(program_, &bytes), name_);
    CompiledCode code(bytes, '\0');
    check_nvrtc(is_machine_code ? nvrtcGetCUBIN(program_, code.data()) : nvrtcGetPTX(program_, code.data()), name_);
    return code;
  }

 private:
  /// The number before the first place in the log that has these words; 0 if there is none.
  int number_before(const char* words) const {
    const std::string text = log();
    const std::size_t end = text.find(words);
    if (end == std::string::npos) return 0;
    const std::size_t begin = text.find_last_not_of("0123456789", end - 1) + 1;
    return begin < end ? std::stoi(text.substr(begin, end - begin)) : 0;
  }

  std::string log() const {
    std::size_t bytes = 0;
    check_nvrtc(nvrtcGetProgramLogSize(program_, &bytes), name_);
    std::string log(bytes, '\0');
    check_nvrtc(nvrtcGetProgramLog(program_, log.data()), name_);
    return log.c_str();
  }

  const char* name_;
  nvrtcProgram program_ = nullptr;
};

/// Returns what to compile for: "sm_90", machine code, if NVRTC can make it for this architecture, or else
/// "compute_80", code for the driver, of the newest architecture before it that NVRTC knows.
std::string target_for(int architecture) {
  int count = 0;
  check_nvrtc(nvrtcGetNumSupportedArchs(&count), "architectures");
  std::vector<int> all(static_cast<std::size_t>(count));  // in ascending order
  check_nvrtc(nvrtcGetSupportedArchs(all.data()), "architectures");
  const auto newer = std::upper_bound(all.begin(), all.end(), architecture);
  require(newer != all.begin(), "cuda: NVRTC makes code for sm_{} and newer GPUs; this one is sm_{}", all.front(),
          architecture);
  const int target = *(newer - 1);
  return fmt::format("{}_{}", target == architecture ? "sm" : "compute", target);
}

// ---- The driver ----

/// A kernel that needs more shared memory must ask for it (CUDA C++ Programming Guide, "Shared Memory 9.x").
constexpr std::size_t default_shared_bytes = 48 << 10;

/// Throws Error unless a call of the driver succeeded. Its errors have the numbers of the runtime's.
void check_driver(CUresult status, const char* name) { check(static_cast<cudaError_t>(status), name); }

/// Functions of the driver. The runtime finds them, so that programs also start where no driver is installed.
struct Driver {
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleGetFunction_v2000 find;
  PFN_cuLaunchKernel_v4000 launch;
  PFN_cuFuncSetAttribute_v9000 set_attribute;

  Driver() {
    find_function("cuModuleLoadData", load, 2000);
    find_function("cuModuleGetFunction", find, 2000);
    find_function("cuLaunchKernel", launch, 4000);
    find_function("cuFuncSetAttribute", set_attribute, 9000);
  }

 private:
  /// `version` is that of CUDA which introduced this signature, as in the type's name.
  template <class Function>
  static void find_function(const char* name, Function& function, unsigned version) {
    void* address = nullptr;
#if CUDART_VERSION >= 12050
    check(cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault), name);
#else
    static_cast<void>(version);
    check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault), name);
#endif
    require(address != nullptr, "cuda: the driver has no function {}", name);
    function = reinterpret_cast<Function>(address);
  }
};

const Driver& driver() {
  static const Driver found;
  return found;
}

/// The architecture of the GPU that fovea uses, 10 · major + minor.
int device_architecture() {
  static const int architecture = [] {
    int major = 0, minor = 0;
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu_number()), "cudaDeviceGetAttribute");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, gpu_number()), "cudaDeviceGetAttribute");
    return 10 * major + minor;
  }();
  return architecture;
}

struct Compiled {
  CompiledCode code;
  int spilled_bytes;
};

/// The file of NVRTC and its size: an update of the same version may compile otherwise.
std::string compiler_file() {
  Dl_info file{};
  if (::dladdr(reinterpret_cast<const void*>(&nvrtcVersion), &file) == 0 || file.dli_fname == nullptr) return "";
  std::error_code unknown;
  return fmt::format("{}, {} bytes\n", file.dli_fname, std::filesystem::file_size(file.dli_fname, unknown));
}

/// The code of a text for this process's GPU: what a program has kept, or else compiled now, and kept. The first line
/// of what is kept has the number of spilled bytes.
Compiled code_of(const char* name, const std::string& text) {
  const std::filesystem::path folder = code_cache_folder();
  int major = 0, minor = 0;
  check_nvrtc(nvrtcVersion(&major, &minor), name);
  std::string key = fmt::format("spilled bytes, code of NVRTC {}.{} for sm_{}\n", major, minor, device_architecture());
  key += compiler_file();
  for (const char* option : compile_options) key += fmt::format("{}\n", option);
  for (const CarriedHeader& header : carried_headers) key += header.text;
  key += text;
  if (const std::optional<std::string> kept = kept_code(folder, key)) {
    const std::size_t line = kept->find('\n');
    return {kept->substr(line + 1), std::stoi(kept->substr(0, line))};
  }
  KernelUse use;
  CompiledCode made = compile(name, text, device_architecture(), &use);
  keep_code(folder, key, fmt::format("{}\n", use.spilled_bytes).append(made));
  return {std::move(made), use.spilled_bytes};
}

struct LoadedKernel {
  CUfunction function;
  int spilled_bytes;
};

LoadedKernel load(const char* name, const std::string& text, const char* kernel, std::size_t shared_bytes) {
  CUmodule module = nullptr;  // stays loaded until the program ends
  CUfunction found = nullptr;
  const Compiled compiled = code_of(name, text);
  CUresult loaded = driver().load(&module, compiled.code.data());
  if (loaded == CUDA_ERROR_OUT_OF_MEMORY) {
    release_cache(Device::cuda);
    loaded = driver().load(&module, compiled.code.data());
  }
  check_driver(loaded, name);
  check_driver(driver().find(&found, module, kernel), name);
  if (shared_bytes > default_shared_bytes)
    check_driver(
        driver().set_attribute(found, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(shared_bytes)),
        name);
  return {found, compiled.spilled_bytes};
}

/// The kernel of a text, which is always launched with as much shared memory. The first thread that asks for it
/// compiles it; only those that want the same one wait.
LoadedKernel kernel_of(const char* name, const std::string& text, const char* kernel, std::size_t shared_bytes) {
  check(cudaSetDevice(gpu_number()), "cudaSetDevice");  // the driver loads for the device of the calling thread
  static std::mutex mutex;
  static auto& kernels = *new std::map<std::string, std::shared_future<LoadedKernel>>;  // of the one device
  std::shared_future<LoadedKernel> made;
  {
    std::lock_guard lock(mutex);
    const auto [found, is_first] = kernels.try_emplace(text);
    if (is_first) found->second = std::async(std::launch::deferred, load, name, std::cref(text), kernel, shared_bytes);
    made = found->second;
  }
  try {
    return made.get();  // compiles, in the first thread that comes here
  } catch (...) {       // the next call tries again: there may be memory then
    std::lock_guard lock(mutex);
    kernels.erase(text);
    throw;
  }
}

}  // namespace

CompiledCode compile(const char* name, const std::string& text, int architecture, KernelUse* use) {
  return Program(name, text).compile(target_for(architecture), use);
}

int spilled_bytes(const char* name, const std::string& text, const char* kernel, std::size_t shared_bytes) {
  return kernel_of(name, text, kernel, shared_bytes).spilled_bytes;
}

bool launch_compiled(const TextLaunch& launch) {
  const Grid& grid = launch.grid;
  const CUfunction function = kernel_of(launch.name, launch.text, launch.kernel, grid.shared_bytes).function;
  std::vector<void*> addresses;
  for (const KernelArgument& argument : launch.arguments) addresses.push_back(const_cast<void*>(argument.address));
  check_driver(
      driver().launch(function, grid.blocks.x, grid.blocks.y, grid.blocks.z, grid.threads.x, grid.threads.y,
                      grid.threads.z, static_cast<unsigned>(grid.shared_bytes), stream(), addresses.data(), nullptr),
      launch.name);
  launched(launch.name, launch.bytes);
  return true;
}

}  // namespace fovea::cuda

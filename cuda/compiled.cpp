#include "cuda/compiled.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <nvrtc.h>

#include "cuda/carried_headers.h"
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

  /// `target` is "sm_90", machine code, or "compute_90", code for the driver.
  CompiledCode compile(const std::string& target) {
    const std::string architecture = "--gpu-architecture=" + target;
    const char* options[] = {"--std=c++20", architecture.c_str()};
    const nvrtcResult status = nvrtcCompileProgram(program_, std::size(options), options);
    if (status == NVRTC_ERROR_COMPILATION) fail("cuda: {}: NVRTC: {}", name_, first_error(log()));
    check_nvrtc(status, name_);
    const bool is_machine_code = target.starts_with("sm_");
    std::size_t bytes = 0;
    check_nvrtc(is_machine_code ? nvrtcGetCUBINSize(program_, &bytes) : nvrtcGetPTXSize(program_, &bytes), name_);
    CompiledCode code(bytes, '\0');
    check_nvrtc(is_machine_code ? nvrtcGetCUBIN(program_, code.data()) : nvrtcGetPTX(program_, code.data()), name_);
    return code;
  }

 private:
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

/// Functions of the driver. The runtime finds them, so that programs also start where no driver is installed.
struct Driver {
  PFN_cuModuleLoadData_v2000 load;
  PFN_cuModuleGetFunction_v2000 find;
  PFN_cuLaunchKernel_v4000 launch;
  PFN_cuGetErrorString_v6000 describe;

  Driver() {
    find_function("cuModuleLoadData", load, 2000);
    find_function("cuModuleGetFunction", find, 2000);
    find_function("cuLaunchKernel", launch, 4000);
    find_function("cuGetErrorString", describe, 6000);
  }

  void check(CUresult status, const char* name) const {
    if (status == CUDA_SUCCESS) return;
    const char* text = nullptr;
    describe(status, &text);
    fail("cuda: {}: {}", name, text ? text : "unknown error of the driver");
  }

 private:
  /// `version` is that of CUDA which introduced this signature, as in the type's name.
  template <class Function>
  static void find_function(const char* name, Function& function, unsigned version) {
    void* address = nullptr;
#if CUDART_VERSION >= 12050
    cuda::check(cudaGetDriverEntryPointByVersion(name, &address, version, cudaEnableDefault), name);
#else
    static_cast<void>(version);
    cuda::check(cudaGetDriverEntryPoint(name, &address, cudaEnableDefault), name);
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

/// The kernel of a text, compiled if it is the first time. Modules stay loaded until the program ends.
CUfunction kernel_of(const char* name, const std::string& text, const char* kernel) {
  static std::mutex mutex;
  static auto& kernels = *new std::map<std::string, CUfunction>;  // by text: fovea uses one device
  std::lock_guard lock(mutex);
  CUfunction& found = kernels[text];
  if (!found) {
    CUmodule module = nullptr;
    driver().check(driver().load(&module, compile(name, text, device_architecture()).data()), name);
    driver().check(driver().find(&found, module, kernel), name);
  }
  return found;
}

}  // namespace

CompiledCode compile(const char* name, const std::string& text, int architecture) {
  return Program(name, text).compile(target_for(architecture));
}

void launch_compiled(const char* name, std::int64_t bytes, const std::string& text, const char* kernel,
                     const Grid& grid, void** arguments) {
  check(cudaSetDevice(gpu_number()),
        "cudaSetDevice");  // the driver's calls need the device's context in the calling thread
  const CUfunction function = kernel_of(name, text, kernel);
  driver().check(
      driver().launch(function, grid.blocks.x, grid.blocks.y, grid.blocks.z, grid.threads.x, grid.threads.y,
                      grid.threads.z, static_cast<unsigned>(grid.shared_bytes), stream(), arguments, nullptr),
      name);
  launched(name, bytes);
}

}  // namespace fovea::cuda

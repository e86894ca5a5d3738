/// The device that the tests of a suite run on, and decorators for tests that are not about every device.
#pragma once
#include <cstdlib>
#include <functional>
#include <string>

#include <boost/test/unit_test.hpp>

#include "tensor/kernels.h"

namespace fovea {

/// The device whose kernels are tested: the environment variable FOVEA_TEST_DEVICE, or the CPU. The random tensors
/// and modules of tests lie there.
inline Device test_device() {
  static const Device device = [] {
    const char* text = std::getenv("FOVEA_TEST_DEVICE");
    return text ? parse_device(text) : Device::cpu;
  }();
  return device;
}
/// The tensor on the tested device. A view becomes contiguous when it moves there.
inline Tensor here(const Tensor& x) { return x.to(test_device()); }
/// The first value where the CPU is tested, the second on CUDA: sizes for which the stand-in of tests/cuda_on_host,
/// which runs every kernel several times in one thread, does not need minutes.
template <class T>
T by_device(T on_cpu, T on_cuda) {
  return test_device() == Device::cpu ? on_cpu : on_cuda;
}

/// A decorator that skips its test, and reports why, where there is a reason to.
inline boost::unit_test::precondition skipped_for(std::function<std::string()> reason) {
  return boost::unit_test::precondition([reason](boost::unit_test::test_unit_id) {
    const std::string why = reason();
    boost::test_tools::assertion_result runs(why.empty());
    runs.message() << why;
    return runs;
  });
}
/// Skips the test on any device but the CPU: it is about the CPU itself, or about no device at all.
inline boost::unit_test::precondition cpu_only() {
  return skipped_for([] {
    return test_device() == Device::cpu ? std::string() : fmt::format("it is not about {}", name(test_device()));
  });
}

/// Skips the test on the CPU: it is about a device that computes while the host goes on.
inline boost::unit_test::precondition not_on_the_cpu() {
  return skipped_for([] { return std::string(test_device() == Device::cpu ? "it is not about the cpu" : ""); });
}
/// Whether there are kernels of CUDA and they run on the CPU (tests/cuda_on_host).
inline bool kernels_run_on_the_host() {
  return cuda_is_available() && kernels(Device::cuda).describe().starts_with("CUDA kernels on the host");
}
/// Skips the test unless the kernels of CUDA run on the CPU, where they can be made to fail.
inline boost::unit_test::precondition with_kernels_on_the_host() {
  return skipped_for(
      [] { return std::string(kernels_run_on_the_host() ? "" : "the kernels of CUDA do not run on the CPU here"); });
}
/// Skips the test where there is no GPU and no build whose kernels run on the CPU.
inline boost::unit_test::precondition with_cuda() {
  return skipped_for([] { return std::string(cuda_is_available() ? "" : "there is no GPU"); });
}

}  // namespace fovea

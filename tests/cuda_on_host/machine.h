/// The machine that the host runtime pretends to be. Tests change it to see how programs refuse one that they cannot
/// use, or how they report a kernel that fails.
#pragma once
#include <cstddef>
#include <string>

namespace fovea::cuda_on_host {

struct Machine {
  int devices = 1;
  int driver = 13000;              ///< newest version of CUDA that the driver supports; 0: no driver is installed
  int architecture = 90;           ///< 10 · major + minor; there are kernels for 80 and newer
  std::size_t memory = 8ul << 30;  ///< bytes of device memory
  /// Name of the kernels that fail when they run, or "gemm" for matrix products. If none of this name runs, a line on
  /// standard error says so when the program ends.
  std::string fault;
};

/// Returns the machine that the environment variable FOVEA_CUDA_ON_HOST describes, such as "devices=2 architecture=70";
/// whatever it does not name is as above. Throws Error for a name that is no member, and for a value of a wrong form.
const Machine& machine();

}  // namespace fovea::cuda_on_host

/// Launches of kernels from text, where there is no NVRTC.
#pragma once
#include <functional>

#include "cuda/compiled.h"

namespace fovea::cuda_on_host {

/// If it is set, it may run a kernel from its text in place of the function that the C++ compiler made of the same
/// formula, and returns whether it did. For tests.
extern std::function<bool(const cuda::TextLaunch&)> runs_text;

}  // namespace fovea::cuda_on_host

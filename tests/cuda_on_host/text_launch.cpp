#include "tests/cuda_on_host/text_launch.h"

namespace fovea {

std::function<bool(const cuda::TextLaunch&)> cuda_on_host::runs_text;

bool cuda::launch_compiled(const TextLaunch& launch) {
  return cuda_on_host::runs_text && cuda_on_host::runs_text(launch);
}

}  // namespace fovea

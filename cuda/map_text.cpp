#include "cuda/map_text.h"

#include <algorithm>

#include <fmt/format.h>

namespace fovea::cuda {

std::string map_text(const Expression& expression, DType dtype) {
  constexpr const char* around = R"(#include "cuda/map_operands.h"
#include "tensor/formula/gpu_math.h"
namespace fovea {{
using namespace gpu;
{0}
struct Constants {{
  {1} at[{2}];
}};
extern "C" __global__ void {3}(const __grid_constant__ cuda::MapOperands<{1}> operands,
                               const __grid_constant__ Constants constants) {{
  cuda::map_elements<{4}, {5}>(operands, [&](const {1}* x, {1}* y) {{ expression(x, constants.at, y); }});
}}
}}
)";
  return fmt::format(around, source_of(expression, "expression"), dtype == DType::f64 ? "double" : "float",
                     std::max<std::size_t>(expression.constants.size(), 1), map_text_kernel, expression.results.size(),
                     expression.inputs);
}

}  // namespace fovea::cuda

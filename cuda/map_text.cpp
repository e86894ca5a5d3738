#include "cuda/map_text.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

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

namespace {

/// The kernels of all functors that were launched. Never destroyed: other threads may launch when the program ends.
class FunctorKernels {
 public:
  std::shared_ptr<const FunctorKernel> get(const MapFormula& formula, const void* functor, DType dtype) {
    if (formula.bytes < 0) return record(formula, functor, dtype);
    Key key{&formula, dtype, {static_cast<const char*>(functor), static_cast<std::size_t>(formula.bytes)}};
    std::lock_guard lock(mutex_);
    if (auto known = kernels_.find(key); known != kernels_.end()) return known->second;
    if (kernels_.size() >= most_kernels) kernels_.clear();
    return kernels_[std::move(key)] = record(formula, functor, dtype);
  }
  std::uint64_t recorded() const { return recorded_; }

 private:
  /// A MapFormula, which each type of functor and each formula written as text has for itself, the type of the numbers,
  /// and the functor's bytes.
  using Key = std::tuple<const MapFormula*, DType, std::string>;

  /// A functor with a member that changes in every step would otherwise fill the memory.
  static constexpr std::size_t most_kernels = 4096;

  std::shared_ptr<const FunctorKernel> record(const MapFormula& formula, const void* functor, DType dtype) {
    recorded_.fetch_add(1, std::memory_order_relaxed);
    const Expression expression = formula.expression(functor);
    auto made = std::make_shared<FunctorKernel>(FunctorKernel{map_text(expression, dtype), expression.constants});
    made->constants.resize(std::max<std::size_t>(made->constants.size(), 1));
    return made;
  }

  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const FunctorKernel>> kernels_;
  std::atomic<std::uint64_t> recorded_ = 0;
};

FunctorKernels& functor_kernels() {
  static auto* made = new FunctorKernels;
  return *made;
}

}  // namespace

std::shared_ptr<const FunctorKernel> functor_kernel(const MapFormula& formula, const void* functor, DType dtype) {
  return functor_kernels().get(formula, functor, dtype);
}
std::uint64_t recorded_functors() { return functor_kernels().recorded(); }

}  // namespace fovea::cuda

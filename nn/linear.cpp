#include "nn/linear.h"

#include "autograd/operations.h"

namespace fovea {

Linear::Linear(std::int64_t in, std::int64_t out, const Options& options)
    : weight_(parameter("weight", {in, out}, options.initializer, options.rate)) {
  if (options.bias) bias_ = parameter("bias", {out}, Initializer::zeros(), options.rate);
}

Variable Linear::forward(const Variable& x) const {
  Scope scope = enter();
  return linear(x, weight_, bias_);
}

}  // namespace fovea

// Exercise 2: broadcasting's sum.                                  Before it: section 2 of autograd/README.md.
//
// In x + b with x [2, 3] and b [3], each b_k is used in two rows. A number that is used twice gets the sum of two
// gradients, so that the gradient of b is
//
//   dL/db_k = sum_i g_ik                  g [2, 3] -> dL/db [3]
//
// No rule does this: the engine does, for every input whose shape was broadcast. Shapes are aligned at their last
// dimension. An input of the shape `shape` was repeated
//   - along each leading dimension of g that `shape` does not have,
//   - along each dimension in which `shape` has 1 and g another size.
//
// Write: a function that sums g over the dimensions in which an input of shape `shape` was repeated, and returns the
// result in that shape. You need sum(g, dims) and reshape(result, shape); g.rank(), g.size(d), shape.rank() and
// shape[d] say how large they are. (The library's own function is sum_to(); do not call it.)
//
// The check compares with sums by plain loops, for several pairs of shapes.
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

// ---- your code begins
Variable summed_to(const Variable& g, const Shape& shape) {
  (void)shape;
  return g;  // right if nothing was broadcast
}
// ---- your code ends

/// The same by a loop over all elements: each is added to the element of `shape` that it was a copy of.
Tensor expected_sum(const Tensor& g, const Shape& shape) {
  Tensor out = Tensor::zeros(shape, DType::f64);
  const auto values = g.to_vector<double>();
  for (std::int64_t k = 0; k < g.elements(); ++k) {
    std::int64_t rest = k, place = 0, stride = 1;
    for (int d = g.rank() - 1, e = shape.rank() - 1; e >= 0; --d, --e) {
      if (shape[e] != 1) place += rest % g.size(d) * stride;
      rest /= g.size(d);
      stride *= shape[e];
    }
    out.mutable_data<double>()[place] += values[static_cast<std::size_t>(k)];
  }
  return out;
}

void check() {
  const Variable g = random_leaf({2, 3, 4}, 1);
  for (const Shape& shape : {Shape{2, 3, 4}, Shape{3, 4}, Shape{4}, Shape{2, 1, 4}, Shape{3, 1}, Shape{}})
    expect(fmt::format("the gradient of an input {}", shape), summed_to(g, shape).value(),
           expected_sum(g.value(), shape));
}

int main() { return run(check); }

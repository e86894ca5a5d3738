// Exercise 4: a second derivative.                                 Before it: section 3 of autograd/README.md.
//
// A penalty on the gradient (Gulrajani et al. 2017, "Improved Training of Wasserstein GANs") makes a function smooth:
// it is small where f changes little when its input x moves. The penalty contains a derivative, so that training with
// it takes a derivative of a derivative:
//
//   penalty(w) = sum_k (df/dx_k)^2,       f(x, w) one number
//   wanted:      d penalty / dw
//
// Write: the penalty, as a variable that can be differentiated. grad(f, {x}) returns the list of gradients, here with
// one element. With the option create_graph, grad(f, {x}, {}, {.create_graph = true}), the backward pass is recorded on
// the tape, so that its result can be differentiated again; without it the result is a constant.
//
// The check calls backward() on your penalty, and compares with central differences of it.
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

// ---- your code begins
Variable gradient_penalty(const Variable& f, const Variable& x) {
  (void)f;
  return sum(square(x));  // wrong: it is not about the derivative
}
// ---- your code ends

void check() {
  Variable x = random_leaf({3}, 1), w = random_leaf({3, 2}, 2);
  auto f = [&] { return sum(tanh(matmul(unsqueeze(x, 0), w))); };

  // d/dx sum_j tanh(x w)_j = sum_j (1 - tanh^2((x w)_j)) w_j
  const Variable slope = 1 - square(tanh(matmul(unsqueeze(x, 0), w)));
  auto penalty = [&] { return gradient_penalty(f(), x); };
  expect("the penalty", penalty().item(), sum(square(matmul(w, transpose(slope, 0, 1)))).item());
  backward(penalty());
  require(w.grad().defined(), "the gradient of w is undefined: the penalty does not depend on w");
  expect("d penalty / dw", w.grad().value(), differences([&] { return penalty().item(); }, w));
}

int main() { return run(check); }

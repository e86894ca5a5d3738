// Exercise 5: checkpointing.                                       Before it: autograd/recompute.h.
//
// A tape keeps what the rules need, so that a deep model needs memory for every intermediate result. Checkpointing
// (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost") keeps the input of a part of the model only, and
// computes the part again when the backward pass comes to it:
//
//   forward:    y = f(x), without a tape; one node is recorded, which has x
//   backward:   y = f(x) again, with a tape; the gradient of x is grad(y, {x}, g)
//
// Write: the rule of that node, a function from the gradient g of y to the gradient of x. In the rule,
//   - recording is off, as in any backward pass: GradMode on(true); turns it on until the end of the function;
//   - x is a result of older nodes; Variable again(x.value(), true); is a leaf with the same value, so that your pass
//     ends there;
//   - grad(y, {again}, g)[0] is the gradient of `again`, given that of y.
//
// The check counts the nodes on the tape, and compares the gradient with that of f without checkpointing.
#include <algorithm>

#include "autograd/node.h"
#include "autograd/tape.h"
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

using Function = Variable (*)(const Variable&);

// ---- your code begins
Variable gradient_by_computing_again(Function f, const Variable& x, const Variable& g) {
  (void)f, (void)g;
  return x - x;  // wrong: it is 0
}
// ---- your code ends

Variable checkpoint(Function f, const Variable& x) {
  auto without_tape = [&] {
    NoGrad off;
    return f(x).value();
  };
  return record("checkpoint", without_tape(), {x}, [f, x = Saved(x)](const Variable& g, const Node& node) {
    return gradient_by_computing_again(f, x.get(node), g);
  });
}

Variable deep(const Variable& x) {
  Variable y = x;
  for (int layer = 0; layer < 10; ++layer) y = tanh(0.8 * y + x);
  return y;
}

void check() {
  Variable x = random_leaf({2, 3}, 1), weight = random_leaf({2, 3}, 2).detach();
  auto loss = [&](bool checkpoints) {
    const Variable y = exp(x);
    return sum((checkpoints ? checkpoint(deep, y) : deep(y)) * weight);
  };
  const auto nodes = tape_graph(loss(true));
  expect("the number of operations on the tape",
         static_cast<double>(std::count_if(nodes.begin(), nodes.end(), [](const TapeNode& n) { return !n.is_leaf; })),
         4);  // exp, checkpoint, multiply, sum
  expect("dL/dx", grad(loss(true), {x})[0].value(), grad(loss(false), {x})[0].value());
}

int main() { return run(check); }

// Exercise 1: a rule by hand.                                      Before it: sections 1 and 2 of autograd/README.md.
//
// An operation on the tape has a rule: a function from the gradient of its result to the gradients of its inputs. The
// operation here is the dot product of each row of a with the same row of b:
//
//   c_i = sum_k a_ik b_ik                 a, b [n, d] -> c [n]
//
// With g_i = dL/dc_i, the gradient that arrives, the chain rule says
//
//   dL/da_ik = g_i b_ik,   dL/db_ik = g_i a_ik
//
// Write: the rule's result, the gradients of a and b, [n, d] each. g [n] and the two matrices have different shapes:
// unsqueeze(g, 1) is g as [n, 1], which broadcasts.
//
// The check compares your gradients with central differences, and prints the first element that differs.
#include "autograd/node.h"
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

/// The two gradients, given the gradient g [n] of the result.
// ---- your code begins
Gradients row_dot_gradients(const Variable& g, const Variable& a, const Variable& b) {
  (void)g;
  return {a - a, b - b};  // both are wrong: they are 0
}
// ---- your code ends

Variable row_dot(const Variable& a, const Variable& b) {
  return record("row_dot", sum(a * b, {1}).value(), {a, b},
                [a = Saved(a), b = Saved(b)](const Gradients& g, const Node& node) {
                  return row_dot_gradients(g[0], a.get(node), b.get(node));
                });
}

void check() {
  Variable a = random_leaf({3, 4}, 1), b = random_leaf({3, 4}, 2), weight = random_leaf({3}, 3).detach();
  auto loss = [&] { return sum(row_dot(a, b) * weight); };
  backward(loss());
  auto number = [&] { return loss().item(); };
  expect("dL/da", a.grad().value(), differences(number, a));
  expect("dL/db", b.grad().value(), differences(number, b));
}

int main() { return run(check); }

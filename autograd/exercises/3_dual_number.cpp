// Exercise 3: a dual number.                              Before it: the end of section 1 of autograd/README.md.
//
// A dual number is a value and a derivative that go through the same arithmetic. For a = (a, a') and b = (b, b')
//
//   a + b   = (a + b,  a' + b')
//   a b     = (a b,    a' b + a b')
//   a / b   = (a / b,  (a' - (a / b) b') / b)
//   exp(a)  = (exp(a), exp(a) a')
//
// A formula that is written for any type of number then computes its own derivative: f((x, 1)) is (f(x), f'(x)). Nobody
// differentiates f. The library's element-wise operations get their derivatives so (tensor/formula/dual.h).
//
// Write: the three derivatives that are 0 below.
//
// The check differentiates three formulas and compares with the gradients that the library's tape gives.
#include "check.h"

using namespace fovea;
using namespace fovea::exercises;

struct DualNumber {
  double value, derivative;
};

DualNumber operator+(DualNumber a, DualNumber b) { return {a.value + b.value, a.derivative + b.derivative}; }

// ---- your code begins
DualNumber operator*(DualNumber a, DualNumber b) { return {a.value * b.value, 0}; }
DualNumber operator/(DualNumber a, DualNumber b) { return {a.value / b.value, 0}; }
DualNumber exp(DualNumber a) { return {std::exp(a.value), 0}; }
// ---- your code ends

// The formulas, for dual numbers and for variables.
template <class T>
T cube(const T& x, const T&) {
  return x * x * x;
}
template <class T>
T ratio(const T& x, const T& one) {
  return x / (one + x * x);
}
template <class T>
T logistic(const T& x, const T& one) {
  return exp(x) / (one + exp(x));
}

void check() {
  for (const double at : {0.7, -1.3}) {
    Variable x(Tensor::of({at}, {}), true);
    const Variable one(Tensor::of({1}, {}));
    const DualNumber dual_x{at, 1}, dual_one{1, 0};
    const std::string place = fmt::format(" at x = {}", at);
    expect("the derivative of x x x" + place, cube(dual_x, dual_one).derivative, grad(cube(x, one), {x})[0].item());
    expect("the derivative of x / (1 + x x)" + place, ratio(dual_x, dual_one).derivative,
           grad(ratio(x, one), {x})[0].item());
    expect("the derivative of exp(x) / (1 + exp(x))" + place, logistic(dual_x, dual_one).derivative,
           grad(logistic(x, one), {x})[0].item());
  }
}

int main() { return run(check); }

/// A number type that computes nothing and writes down what it is asked to compute. A formula that is called with it
/// becomes an Expression.
#pragma once
#include <span>
#include <type_traits>
#include <vector>

#include "tensor/formula/expression.h"
#include "tensor/formula/number.h"

namespace fovea {

/// The expression that the calling thread is recording. Equal steps are recorded once.
class Recorder {
 public:
  explicit Recorder(int inputs);
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// The recorder of the calling thread. Throws Error if there is none.
  static Recorder& current();

  /// Returns the number of the step, a new one or an equal one that is there.
  int step(Operation operation, std::array<int, 3> operands);
  int constant(double value);
  bool is_constant(int step, double value) const;
  /// Ends the recording and returns the steps that the results depend on.
  Expression expression(std::span<const int> results) const;

 private:
  Expression recorded_;
  Recorder* before_;
};

/// A number of a formula that is being recorded: the result of one step of the Recorder of the calling thread.
class Recorded {
 public:
  Recorded() = default;
  template <class S>
  requires std::is_arithmetic_v<S> Recorded(S constant)
      : step_(Recorder::current().constant(static_cast<double>(constant))) {}
  static Recorded of_step(int step) {
    Recorded x;
    x.step_ = step;
    return x;
  }
  int step() const { return step_; }

 private:
  int step_ = 0;
};

/// A truth value of a formula that is being recorded.
struct RecordedTruth {
  int step;
};

template <>
struct ScalarOf<Recorded> {
  using type = double;
};

inline int record_step(Operation operation, int a, int b = 0, int c = 0) {
  return Recorder::current().step(operation, {a, b, c});
}
inline Recorded record_number(Operation operation, Recorded a, Recorded b = {}) {
  return Recorded::of_step(record_step(operation, a.step(), b.step()));
}
inline RecordedTruth record_truth(Operation operation, Recorded a, Recorded b) {
  return {record_step(operation, a.step(), b.step())};
}

inline Recorded operator+(Recorded a, Recorded b) { return record_number(Operation::add, a, b); }
inline Recorded operator-(Recorded a, Recorded b) { return record_number(Operation::subtract, a, b); }
/// A factor of exactly 1 is left out: x · 1 is x, whatever x is. Derivatives begin with such factors.
inline Recorded operator*(Recorded a, Recorded b) {
  if (Recorder::current().is_constant(a.step(), 1)) return b;
  if (Recorder::current().is_constant(b.step(), 1)) return a;
  return record_number(Operation::multiply, a, b);
}
inline Recorded operator/(Recorded a, Recorded b) { return record_number(Operation::divide, a, b); }
inline Recorded operator-(Recorded a) { return record_number(Operation::negate, a); }

inline RecordedTruth operator<(Recorded a, Recorded b) { return record_truth(Operation::less, a, b); }
inline RecordedTruth operator<=(Recorded a, Recorded b) { return record_truth(Operation::less_equal, a, b); }
inline RecordedTruth operator>(Recorded a, Recorded b) { return record_truth(Operation::less, b, a); }
inline RecordedTruth operator>=(Recorded a, Recorded b) { return record_truth(Operation::less_equal, b, a); }
inline RecordedTruth operator==(Recorded a, Recorded b) { return record_truth(Operation::equal, a, b); }
inline RecordedTruth operator!=(Recorded a, Recorded b) { return record_truth(Operation::not_equal, a, b); }
inline RecordedTruth operator&(RecordedTruth a, RecordedTruth b) {
  return {record_step(Operation::logical_and, a.step, b.step)};
}
inline RecordedTruth operator|(RecordedTruth a, RecordedTruth b) {
  return {record_step(Operation::logical_or, a.step, b.step)};
}
inline RecordedTruth operator!(RecordedTruth a) { return {record_step(Operation::logical_not, a.step)}; }

inline Recorded select(RecordedTruth condition, Recorded yes, Recorded no) {
  if (yes.step() == no.step()) return yes;
  return Recorded::of_step(record_step(Operation::select, condition.step, yes.step(), no.step()));
}

inline Recorded larger_of(Recorded a, Recorded b) { return record_number(Operation::larger, a, b); }
inline Recorded smaller_of(Recorded a, Recorded b) { return record_number(Operation::smaller, a, b); }
inline Recorded abs(Recorded x) { return record_number(Operation::abs, x); }
inline Recorded exp(Recorded x) { return record_number(Operation::exp, x); }
inline Recorded log(Recorded x) { return record_number(Operation::log, x); }
inline Recorded log1p(Recorded x) { return record_number(Operation::log1p, x); }
inline Recorded sqrt(Recorded x) { return record_number(Operation::sqrt, x); }
inline Recorded floor(Recorded x) { return record_number(Operation::floor, x); }
inline Recorded tanh(Recorded x) { return record_number(Operation::tanh, x); }
inline Recorded sigmoid(Recorded x) { return record_number(Operation::sigmoid, x); }
inline Recorded softplus(Recorded x) { return record_number(Operation::softplus, x); }
inline Recorded erf(Recorded x) { return record_number(Operation::erf, x); }
inline Recorded sin(Recorded x) { return record_number(Operation::sin, x); }
inline Recorded cos(Recorded x) { return record_number(Operation::cos, x); }

/// Records f(x...), which takes `inputs` numbers as std::span<const Recorded> and returns a std::vector<Recorded> of
/// results.
template <class F>
Expression record_expression(int inputs, const F& f) {
  Recorder recorder(inputs);
  std::vector<Recorded> x;
  for (int k = 0; k < inputs; ++k) x.push_back(Recorded::of_step(recorder.step(Operation::input, {k, 0, 0})));
  std::vector<int> results;
  for (Recorded y : f(std::span<const Recorded>(x))) results.push_back(y.step());
  return recorder.expression(results);
}

/// Records the steps of `expression` again, as a part of the formula that is being recorded, with the inputs x. Returns
/// the number of each step in that formula.
std::vector<int> record_again(const Expression& expression, std::span<const Recorded> x);

}  // namespace fovea

#include "attention/engine/cpu/interpreted.h"

#include <map>
#include <mutex>
#include <numeric>

#include "attention/engine/cpu/pair_rows.h"
#include "autograd/node.h"
#include "tensor/cpu/interpreter.h"
#include "tensor/map.h"

namespace fovea {

namespace {

constexpr const char* name = "pointwise";

/// Bytes that are equal only for equal expressions.
std::string bytes_of(const Expression& expression) {
  std::string bytes = fmt::format("{} ", expression.inputs);
  auto add = [&](const auto& numbers) {
    bytes += fmt::format("{} ", numbers.size());
    for (const auto& number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  add(expression.constants);
  for (const Expression::Step& step : expression.steps) {
    bytes += static_cast<char>(step.operation);
    add(step.operands);
  }
  add(expression.results);
  return bytes;
}

/// The object that was made for this key, or a new one. It is never destroyed, because its address identifies the
/// formula in tables of kernels.
template <class Made, class Make>
const Made& kept(const std::string& key, const Make& make) {
  static auto* table = new std::map<std::string, std::unique_ptr<const Made>>;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  std::unique_ptr<const Made>& found = (*table)[key];
  if (!found) found = make();
  return *found;
}

// ---- Element by element on tensors

/// An expression with one result as an element-wise functor, of which this object is the only one.
struct ExpressionMap {
  cpu::Interpreter interpreter;
  MapFormula formula;
};

template <class T>
void map_row(const void* f, T* const* operand, const std::int64_t* step, std::int64_t count) {
  static_cast<const ExpressionMap*>(f)->interpreter.for_row<T>(
      count,
      [&](int input, std::int64_t j, int lanes) {
        return cpu::load_lanes<T>(operand[1 + input] + j * step[1 + input], step[1 + input], lanes);
      },
      [&](std::int64_t j, int lanes, const auto& result) {
        cpu::store_lanes<T>(result(0), operand[0] + j * step[0], step[0], lanes);
      });
}

const ExpressionMap& map_of(const Expression& expression) {
  return kept<ExpressionMap>(bytes_of(expression), [&] {
    const MapFormula formula{
        name,
        &typeid(ExpressionMap),
        0,
        1,
        expression.inputs,
        static_cast<std::int64_t>(2 * expression.steps.size()),
        map_row<float>,
        map_row<double>,
        [](const void* f) { return static_cast<const ExpressionMap*>(f)->interpreter.expression(); },
        [](const void* f) { return std::shared_ptr<const void>(f, [](const void*) {}); }};
    return std::make_unique<const ExpressionMap>(
        ExpressionMap{{expression, std::vector<bool>(static_cast<std::size_t>(expression.inputs), true)}, formula});
  });
}

/// expression(x...), element by element, with broadcasting.
Variable map_expression(const Expression& expression, std::span<const Variable> x) {
  const ExpressionMap& functor = map_of(expression);
  std::vector<const Tensor*> in;
  for (const Variable& one : x) in.push_back(&one.value());
  Tensor out = empty_map_result(name, in.data(), static_cast<int>(in.size()));
  Tensor* const outputs[] = {&out};
  run_map(functor.formula, &functor, {outputs, in.data()});
  const std::vector<Variable> inputs(x.begin(), x.end());
  if (!should_record(inputs)) return Variable(std::move(out));
  return record(name, std::move(out), inputs,
                [&functor, saved = std::vector<Saved>(x.begin(), x.end())](const Gradients& g, const Node& node) {
                  std::vector<Variable> all{g[0]};
                  for (const Saved& one : saved) all.push_back(one.get(node));
                  Gradients gradients(saved.size());
                  for (std::size_t k = 0; k < saved.size(); ++k) {
                    const int of[] = {static_cast<int>(k)};
                    if (node.needs(k))
                      gradients[k] = map_expression(gradients_of(functor.interpreter.expression(), of), all);
                  }
                  return gradients;
                });
}

// ---- On rows of pairs

/// The forms of one formula.
struct Interpreted {
  cpu::Interpreter value;      ///< of z, query position, key position, captures...
  cpu::Interpreter gradients;  ///< those of z and of each capture, from the result's gradient and the inputs of `value`
  std::vector<bool> per_key;   ///< of each capture
  PointwiseFunctions functions;
};

const Interpreted& interpreted(const void* f) { return *static_cast<const Interpreted*>(f); }

/// Reads the inputs of Interpreted::value for row r.
template <class T>
struct RowReader {
  const Interpreted& formula;
  const PairRows<T>& rows;
  std::int64_t r;
  const T* from;  ///< of this row
  const CaptureRow<T>* captured;

  const CaptureRow<T>& capture(std::size_t k) const { return captured[static_cast<std::int64_t>(k) * rows.count + r]; }
  template <class Count>
  Vec<T> operator()(int input, std::int64_t at, Count count) const {
    const std::int64_t j = rows.first[r] + at;
    if (input == 0) return load_vector(from + j, count);
    if (input == 1) return Vec<T>(static_cast<T>(rows.query_position + r));
    if (input == 2) return Vec<T>(static_cast<T>(j)) + lane_numbers<T>();
    const auto k = static_cast<std::size_t>(input - 3);
    return formula.per_key[k] ? load_vector(capture(k).numbers + j, count) : Vec<T>(*capture(k).numbers);
  }
};

template <class T>
void forward(const void* f, const PairRows<T>& rows, const T* from, T* to, const CaptureRow<T>* captured) {
  for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, to += rows.stride)
    interpreted(f).value.for_row<T>(rows.end[r] - rows.first[r], RowReader<T>{interpreted(f), rows, r, from, captured},
                                    [&](std::int64_t at, auto count, const auto& result) {
                                      store_vector(result(0), to + rows.first[r] + at, count);
                                    });
}

template <class T>
void backward(const void* f, const PairRows<T>& rows, const T* from, T* gradient, const CaptureRow<T>* captured) {
  const Interpreted& formula = interpreted(f);
  const std::size_t captures = formula.per_key.size();
  std::vector<Vec<T>> sums(captures);  // gradients of the captures with one number for the row
  for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, gradient += rows.stride) {
    const RowReader<T> read{formula, rows, r, from, captured};
    std::fill(sums.begin(), sums.end(), Vec<T>(T(0)));
    T* const of_row = gradient + rows.first[r];
    auto write = [&](std::int64_t at, auto count, const auto& result) {
      store_vector(result(0), of_row + at, count);
      for (std::size_t k = 0; k < captures; ++k) {
        T* const to = read.capture(k).gradients;
        if (!formula.per_key[k])
          sums[k] += filled(result(1 + k), count, T(0));
        else if (to)
          store_vector(load_vector(to + rows.first[r] + at, count) + result(1 + k), to + rows.first[r] + at, count);
      }
    };
    formula.gradients.for_row<T>(
        rows.end[r] - rows.first[r],
        [&](int input, std::int64_t at, auto count) {
          return input == 0 ? load_vector(of_row + at, count) : read(input - 1, at, count);
        },
        write);
    for (std::size_t k = 0; k < captures; ++k)
      if (!formula.per_key[k] && read.capture(k).gradients) *read.capture(k).gradients += horizontal_sum(sums[k]);
  }
}

/// The results y of an expression for the numbers x.
template <class T>
void compute(const cpu::Interpreter& interpreter, const std::vector<const T*>& x, T* y) {
  interpreter.for_row<T>(
      1, [&](int input, std::int64_t, auto) { return Vec<T>(*x[static_cast<std::size_t>(input)]); },
      [&](std::int64_t, auto, const auto& result) {
        for (std::size_t k = 0; k < interpreter.expression().results.size(); ++k) y[k] = result(k)[0];
      });
}
template <class T>
T value(const void* f, const T* x) {
  std::vector<const T*> inputs(static_cast<std::size_t>(interpreted(f).value.expression().inputs));
  std::iota(inputs.begin(), inputs.end(), x);
  T y;
  compute(interpreted(f).value, inputs, &y);
  return y;
}
template <class T>
void gradients(const void* f, T g, const T* x, T* to) {
  std::vector<const T*> inputs(static_cast<std::size_t>(interpreted(f).gradients.expression().inputs));
  inputs[0] = &g;
  std::iota(inputs.begin() + 1, inputs.end(), x);
  compute(interpreted(f).gradients, inputs, to);
}

std::unique_ptr<const Interpreted> make_interpreted(const Expression& expression, const std::vector<bool>& per_key) {
  std::vector<bool> varies{true, false, true};
  varies.insert(varies.end(), per_key.begin(), per_key.end());
  std::vector<bool> gradients_vary{true};
  gradients_vary.insert(gradients_vary.end(), varies.begin(), varies.end());
  std::vector<int> of{0};
  for (std::size_t k = 0; k < per_key.size(); ++k) of.push_back(3 + static_cast<int>(k));
  return std::make_unique<const Interpreted>(Interpreted{
      {expression, varies},
      {gradients_of(expression, of), gradients_vary},
      per_key,
      {name,
       static_cast<int>(per_key.size()),
       0,
       [](const void* f) { return interpreted(f).value.expression(); },
       [](const void* f, std::span<const Variable> x) { return map_expression(interpreted(f).value.expression(), x); },
       {value<float>, gradients<float>, forward<float>, backward<float>},
       {value<double>, gradients<double>, forward<double>, backward<double>}}});
}

}  // namespace

PointwiseFormula interpreted_formula(const Expression& expression, const std::vector<bool>& per_key) {
  std::string key = bytes_of(expression);
  for (bool one : per_key) key += one ? '1' : '0';
  const Interpreted& made = kept<Interpreted>(key, [&] { return make_interpreted(expression, per_key); });
  return {made.functions, std::shared_ptr<const void>(&made, [](const void*) {})};
}

}  // namespace fovea

#include "attention/engine/cpu/interpreted.h"

#include <map>
#include <mutex>
#include <numeric>

#include "attention/engine/cpu/interpreter.h"
#include "attention/engine/cpu/pair_rows.h"
#include "autograd/node.h"
#include "tensor/formula/recorded.h"
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

/// body(k, at, lanes) for the vectors k of `count` elements, of which vector k has `lanes` from `at` on.
template <class T, class Body>
void for_lanes(std::int64_t count, const Body& body) {
  for (std::int64_t at = 0, k = 0; at < count; at += Vec<T>::lanes, ++k)
    body(k, at, static_cast<int>(std::min<std::int64_t>(Vec<T>::lanes, count - at)));
}

template <class T>
void map_row(const void* f, T* const* operand, const std::int64_t* step, std::int64_t n) {
  static_cast<const ExpressionMap*>(f)->interpreter.for_row<T>(
      n,
      [&](int input, std::int64_t j, std::int64_t count, Vec<T>* to) {
        const T* const from = operand[1 + input];
        const std::int64_t distance = step[1 + input];
        for_lanes<T>(count, [&](std::int64_t k, std::int64_t at, int lanes) {
          to[k] = cpu::load_lanes<T>(from + (j + at) * distance, distance, lanes);
        });
      },
      [&](std::int64_t j, std::int64_t count, const auto& result) {
        for_lanes<T>(count, [&](std::int64_t k, std::int64_t at, int lanes) {
          cpu::store_lanes<T>(result(0)[k], operand[0] + (j + at) * step[0], step[0], lanes);
        });
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

/// An expression that is linear in its first input, as one that is 0 where this input is 0, also where the factor is
/// NaN or infinite.
Expression zero_at_zero(const Expression& expression) {
  return record_expression(expression.inputs, [&](std::span<const Recorded> x) {
    const std::vector<int> steps = record_again(expression, x);
    const Recorded result = Recorded::of_step(steps[static_cast<std::size_t>(expression.results[0])]);
    return std::vector<Recorded>{select(x[0] == Recorded(0), Recorded(0), result)};
  });
}

/// The forms of one formula.
struct Interpreted {
  cpu::Interpreter value;      ///< of z, query position, key position, captures...
  cpu::Interpreter gradients;  ///< those of z and of each capture, from the result's gradient and the inputs of `value`
  std::vector<bool> per_key;   ///< of each capture
  PointwiseFunctions functions;
};

const Interpreted& interpreted(const void* f) { return *static_cast<const Interpreted*>(f); }

/// Adds the gradients of a capture for `count` pairs: to one number for each key, or to the row's only one.
template <class T>
void add_gradient(const Vec<T>* more, std::int64_t count, T* to, bool per_key) {
  Vec<T> sum(T(0));
  for_vectors<T>(count, [&](std::int64_t at, auto lanes) {
    if (per_key)
      store_vector(load_vector(to + at, lanes) + *more++, to + at, lanes);
    else
      sum += filled(*more++, lanes, T(0));
  });
  if (!per_key) *to += horizontal_sum(sum);
}

/// Reads the inputs of Interpreted::value for row r.
template <class T>
struct RowReader {
  const Interpreted& formula;
  const PairRows<T>& rows;
  std::int64_t r;
  const T* from;  ///< of this row
  const CaptureRow<T>* captured;

  const CaptureRow<T>& capture(std::size_t k) const { return captured[static_cast<std::int64_t>(k) * rows.count + r]; }
  void operator()(int input, std::int64_t at, std::int64_t count, Vec<T>* to) const {
    const std::int64_t j = rows.first[r] + at;
    const std::size_t k = input < 3 ? 0 : static_cast<std::size_t>(input - 3);
    if (input == 0)
      load(from + j, count, to);
    else if (input == 1)
      *to = Vec<T>(static_cast<T>(rows.query_position + r));
    else if (input == 2)
      for (std::int64_t lane = 0; lane < count; lane += Vec<T>::lanes)
        *to++ = Vec<T>(static_cast<T>(j + lane)) + lane_numbers<T>();
    else if (formula.per_key[k])
      load(capture(k).numbers + j, count, to);
    else
      *to = Vec<T>(*capture(k).numbers);
  }
  static void load(const T* from, std::int64_t count, Vec<T>* to) {
    for_vectors<T>(count, [&](std::int64_t at, auto lanes) { *to++ = load_vector(from + at, lanes); });
  }
};

template <class T>
void forward(const void* f, const PairRows<T>& rows, const T* from, T* to, const CaptureRow<T>* captured) {
  for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, to += rows.stride)
    interpreted(f).value.for_row<T>(
        rows.end[r] - rows.first[r], RowReader<T>{interpreted(f), rows, r, from, captured},
        [&](std::int64_t j, std::int64_t count, const auto& result) {
          const Vec<T>* values = result(0);
          T* const first = to + rows.first[r] + j;
          for_vectors<T>(count, [&](std::int64_t at, auto lanes) { store_vector(*values++, first + at, lanes); });
        });
}

template <class T>
void backward(const void* f, const PairRows<T>& rows, const T* from, T* gradient, const CaptureRow<T>* captured) {
  const Interpreted& formula = interpreted(f);
  for (std::int64_t r = 0; r < rows.count; ++r, from += rows.stride, gradient += rows.stride) {
    const RowReader<T> read_value{formula, rows, r, from, captured};
    auto read = [&](int input, std::int64_t j, std::int64_t count, Vec<T>* to) {
      if (input == 0)
        RowReader<T>::load(gradient + rows.first[r] + j, count, to);
      else
        read_value(input - 1, j, count, to);
    };
    auto write = [&](std::int64_t j, std::int64_t count, const auto& result) {
      const std::int64_t first = rows.first[r] + j;
      const Vec<T>* values = result(0);
      for_vectors<T>(count,
                     [&](std::int64_t at, auto lanes) { store_vector(*values++, gradient + first + at, lanes); });
      for (std::size_t k = 0; k < formula.per_key.size(); ++k)
        if (T* const to = read_value.capture(k).gradients)
          add_gradient(result(1 + k), count, formula.per_key[k] ? to + first : to, formula.per_key[k]);
    };
    formula.gradients.for_row<T>(rows.end[r] - rows.first[r], read, write);
  }
}

/// The results y of an expression for the numbers x.
template <class T>
void compute(const cpu::Interpreter& interpreter, const std::vector<const T*>& x, T* y) {
  interpreter.for_row<T>(
      1, [&](int input, std::int64_t, std::int64_t, Vec<T>* to) { *to = Vec<T>(*x[static_cast<std::size_t>(input)]); },
      [&](std::int64_t, std::int64_t, const auto& result) {
        for (std::size_t k = 0; k < interpreter.expression().results.size(); ++k) y[k] = (*result(k))[0];
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

std::unique_ptr<const Interpreted> make_interpreted(const Expression& expression, const std::vector<bool>& per_key,
                                                    bool of_weights) {
  const Expression value_of = of_weights ? zero_at_zero(expression) : expression;
  std::vector<bool> varies{true, false, true};
  varies.insert(varies.end(), per_key.begin(), per_key.end());
  std::vector<bool> gradients_vary{true};
  gradients_vary.insert(gradients_vary.end(), varies.begin(), varies.end());
  std::uint64_t per_key_bits = 0;
  for (std::size_t k = 0; k < per_key.size(); ++k) per_key_bits |= std::uint64_t{per_key[k]} << k;
  return std::make_unique<const Interpreted>(Interpreted{
      {value_of, varies},
      {gradients_of_pair(value_of), gradients_vary},
      per_key,
      {name,
       static_cast<int>(per_key.size()),
       per_key_bits,
       0,
       [](const void* f) { return interpreted(f).value.expression(); },
       [](const void* f, std::span<const Variable> x) { return map_expression(interpreted(f).value.expression(), x); },
       {value<float>, gradients<float>, forward<float>, backward<float>},
       {value<double>, gradients<double>, forward<double>, backward<double>}}});
}

}  // namespace

PointwiseFormula interpreted_formula(const Expression& expression, const std::vector<bool>& per_key, bool of_weights) {
  std::string key = bytes_of(expression) + (of_weights ? 'w' : 'z');
  for (bool one : per_key) key += one ? '1' : '0';
  const Interpreted& made = kept<Interpreted>(key, [&] { return make_interpreted(expression, per_key, of_weights); });
  return {made.functions, std::shared_ptr<const void>(&made, [](const void*) {})};
}

}  // namespace fovea

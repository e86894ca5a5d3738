// Every row formula of the list, on the tested device, against the same formula on a plain loop over doubles.
#include "autograd/operations/row_formulas.h"

#include <algorithm>

#include "tensor/rows.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

/// One row as the formula sees it, in f64 and without vectors: the documentation of tensor/formula/row.h as code.
struct PlainRow {
  using Number = double;
  std::int64_t n;
  std::vector<const double*> inputs;  ///< n elements, or one value
  std::vector<double*> outputs;
  const double* allow;  ///< null: everything
  double* columns;
  std::int64_t begin;  ///< the number of elements before this row

  std::int64_t size() const { return n; }
  double in(int k, std::int64_t j) const { return inputs[static_cast<std::size_t>(k)][j]; }
  double allowed_or(int k, std::int64_t j, double x) const { return !allow || allow[j] != 0 ? in(k, j) : x; }
  double element(int k, std::int64_t j) const { return in(k, j); }
  double number(int k) const { return in(k, 0); }
  double precise_number(int k) const { return in(k, 0); }
  std::int64_t index(int k) const { return static_cast<std::int64_t>(in(k, 0)); }
  template <class F>
  double maximum(const F& f) const {
    double most = -INFINITY;
    for (std::int64_t j = 0; j < n; ++j) most = std::max(most, f(j));
    return most;
  }
  template <class F>
  double sum(const F& f) const {
    double total = 0;
    for (std::int64_t j = 0; j < n; ++j) total += f(j);
    return total;
  }
  template <class F>
  auto sums(const F& f) const {
    decltype(f(0)) total{};
    for (std::int64_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < total.size(); ++k) total[k] += f(j)[k];
    return total;
  }
  template <class F>
  auto keep(int, const F& f) const {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::int64_t j = 0; j < n; ++j) values[static_cast<std::size_t>(j)] = f(j);
    return [values](std::int64_t j) { return values[static_cast<std::size_t>(j)]; };
  }
  template <class F>
  auto write(int k, const F& f) const {
    for (std::int64_t j = 0; j < n; ++j) write_element(k, j, f(j));
    return [to = outputs[static_cast<std::size_t>(k)]](std::int64_t j) { return to[j]; };
  }
  auto dropout_factors(int, const DropoutMask& mask) const {
    return [&mask, first = begin](std::int64_t j) { return mask.keeps(first + j) ? mask.scale() : 0; };
  }
  template <class F>
  void scan(int k, const F& f, bool reverse) const {
    double total = 0;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t j = reverse ? n - 1 - step : step;
      write_element(k, j, total += f(j));
    }
  }
  void write_element(int k, std::int64_t j, double x) const { outputs[static_cast<std::size_t>(k)][j] = x; }
  void write_number(int k, double x) const { write_element(k, 0, x); }
  void write_precise_number(int k, double x) const { write_element(k, 0, x); }
  template <class F>
  void add_to_column(int k, const F& f) const {
    for (std::int64_t j = 0; j < n; ++j) columns[k * n + j] += f(j);
  }
};

constexpr std::int64_t rows = 6;

/// A formula without options, but for its dropout mask, where it has one.
template <class Formula>
Formula plain_formula() {
  const DropoutMask mask(0.4, {.seed = 3, .stream = 5});
  if constexpr (std::is_same_v<Formula, formula::AddNorm>)
    return {{{}, 0}, mask};
  else if constexpr (requires(Formula f) { f.mask; })
    return {{}, {mask}};
  else
    return {};
}

/// Random operands of `rows` rows of n elements; a formula's options, where it has any.
template <class Formula>
struct Case {
  Formula formula = plain_formula<Formula>();
  std::int64_t n;
  std::vector<Tensor> inputs, outputs;
  Tensor mask, column_sums;

  Case(DType dtype, std::int64_t n, bool masked) : n(n) {
    if constexpr (requires { formula.epsilon; }) formula.epsilon = 1e-5;
    if constexpr (requires { formula.ignored; }) formula.label_smoothing = 0.1, formula.ignored = -1;
    if constexpr (requires { formula.hidden; }) formula.hidden = 0.7, formula.seen = n % 2 == 0 ? 1.9 : 3;
    unsigned salt = 1;
    for (formula::RowOperand kind : Formula::inputs) inputs.push_back(operand(kind, dtype, salt++));
    for (formula::RowOperand kind : Formula::outputs)
      outputs.push_back(here(Tensor::full(shape(kind), 7, type(kind, dtype))));
    if (masked) {
      std::vector<double> allow = random_tensor({rows, n}, DType::f64, 0, 1.7, salt).to_vector<double>();
      for (double& x : allow) x = x < 1;
      std::fill_n(allow.begin() + 2 * n, n, 0.0);  // a row with nothing allowed
      mask = here(Tensor::from(allow, {2, 3, n}).to(DType::boolean));
    }
    if (Formula::column_sums > 0) column_sums = here(Tensor::full({Formula::column_sums, n}, 7, dtype));
  }

  Shape shape(formula::RowOperand kind) const {
    return kind == formula::RowOperand::elements ? Shape{2, 3, n} : Shape{2, 3};
  }
  static DType type(formula::RowOperand kind, DType dtype) {
    return kind == formula::RowOperand::index            ? DType::i64
           : kind == formula::RowOperand::precise_number ? DType::f64
                                                         : dtype;
  }
  Tensor operand(formula::RowOperand kind, DType dtype, unsigned salt) const {
    if (kind == formula::RowOperand::index) {
      std::vector<std::int64_t> index = random_integers({2, 3}, n, DType::i64, salt).to_vector<std::int64_t>();
      index[4] = -1;
      return here(Tensor::from(index, {2, 3}));
    }
    Tensor x = random_tensor(shape(kind), type(kind, dtype), 0.3, 2.1, salt);
    return kind == formula::RowOperand::elements ? layouts(x)[salt % 5] : x;
  }

  /// The results of the formula on a plain loop over the same numbers: all outputs, then the column sums.
  std::vector<std::vector<double>> expected() const {
    auto values = [](const std::vector<Tensor>& tensors) {
      std::vector<std::vector<double>> all;
      for (const Tensor& x : tensors) all.push_back(x.to_vector<double>());
      return all;
    };
    std::vector<std::vector<double>> from = values(inputs), to = values(outputs);
    std::vector<double> allow = mask.defined() ? mask.to_vector<double>() : std::vector<double>();
    std::vector<double> columns(static_cast<std::size_t>(Formula::column_sums * n));
    for (std::int64_t r = 0; r < rows; ++r) {
      PlainRow row{n, {}, {}, mask.defined() ? allow.data() + r * n : nullptr, columns.data(), r * n};
      for (std::size_t k = 0; k < from.size(); ++k)
        row.inputs.push_back(from[k].data() + (Formula::inputs[k] == formula::RowOperand::elements ? r * n : r));
      for (std::size_t k = 0; k < to.size(); ++k)
        row.outputs.push_back(to[k].data() + (Formula::outputs[k] == formula::RowOperand::elements ? r * n : r));
      formula(row);
    }
    if (Formula::column_sums > 0) to.push_back(columns);
    return to;
  }

  void run() {
    TensorList in({}), out({});
    for (const Tensor& x : inputs) in.add(x);
    for (const Tensor& x : outputs) out.add(x);
    run_rows(formula, {Shape{2, 3}, n, in, out, &mask, &column_sums});
  }
};

template <class Formula>
void check_formula() {
  BOOST_TEST_CONTEXT(Formula::name) {
    for (DType dtype : {DType::f32, DType::f64})
      for (std::int64_t n : {1, 3, 17, 64, 130, 512, 1025, 4099})
        for (bool masked : {false, true}) {
          if (masked && !Formula::takes_mask) continue;
          Case<Formula> one(dtype, n, masked);
          std::vector<std::vector<double>> expected = one.expected();
          one.run();
          std::vector<Tensor> got = one.outputs;
          if (Formula::column_sums > 0) got.push_back(one.column_sums);
          for (std::size_t k = 0; k < got.size(); ++k)
            check_close(got[k], expected[k], 4 * tolerance_of(dtype),
                        fmt::format("{} n = {}{}, output {}", Formula::name, n, masked ? " masked" : "", k));
        }
  }
}

template <class... Formulas>
void check_all(FunctorList<Formulas...>) {
  (check_formula<Formulas>(), ...);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(row_formulas)

BOOST_AUTO_TEST_CASE(every_formula_is_that_of_a_plain_loop) {
  std::apply([](auto... list) { (check_all(list), ...); }, formula::RowFormulas{});
}

BOOST_AUTO_TEST_SUITE_END()

// Lists every kernel of a device, and times the rate at which it reads and writes memory.
#include <map>

#include "autograd/operations/cross_entropy.h"
#include "autograd/operations/cumulative_sum.h"
#include "autograd/operations/gather.h"
#include "autograd/operations/layer_norm.h"
#include "autograd/operations/lstm_cell.h"
#include "autograd/operations/softmax.h"
#include "experiments/benchmark.h"
#include "nn/optimizer_formulas.h"
#include "tensor/comparison.h"
#include "tensor/constant.h"
#include "tensor/formula/functors.h"
#include "tensor/gemm.h"
#include "tensor/kernels.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/range.h"
#include "tensor/reduce.h"
#include "tensor/top_k.h"

namespace fovea {

namespace {

/// A call that runs a kernel on f32 operands of one size, through the library's function, so that its checks and its
/// allocations are timed too. The call reads and writes as many bytes as `tensors` operands have.
struct Timing {
  double tensors;
  std::function<void()> call;
};

constexpr std::int64_t columns = 512;

/// Returns calls by the kernel's name, for the kernels that a simple call can run.
std::map<std::string, Timing> timings(Device device, std::int64_t rows) {
  Generator generator(3);
  auto random = [&](const Shape& shape) {
    Tensor x = Tensor::empty(shape);
    fill_uniform(x, generator, 0.5, 1.5);
    return x.to(device);
  };
  Tensor x = random({rows, columns}), y = random({rows, columns}), gain = random({columns}), cell = random({rows, 128});
  Tensor targets = Tensor::zeros({rows}, DType::i64, device), index = Tensor::arange(rows, DType::i64, device);
  Tensor last = Tensor::zeros({rows, columns}, DType::i64, device), out = random({rows, columns});
  Tensor truth = Tensor::full({rows, columns}, 1, DType::boolean, device), weight = random({columns, columns});
  Tensor moment = random({rows, columns}), per_row = random({rows}), sums = Tensor::zeros({rows}, DType::f64, device);
  Tensor statistics = per_row.to(DType::f64);
  const Tensor one = constant(1, DType::f32, device);
  return {
      {"copy_bytes", {2, [=]() mutable { kernels(device).copy_bytes(out.mutable_address(), x.address(), x.bytes()); }}},
      {"copy", {2, [=]() mutable { out.copy_from(x); }}},
      {"fill", {1, [=]() mutable { out.fill(2); }}},
      {"arange", {1, [=] { Tensor::arange(rows * columns, DType::f32, device); }}},
      {"less", {2.25, [=] { less(x, y); }}},
      {"logical_and", {0.75, [=] { logical_and(truth, truth); }}},
      {"logical_not", {0.5, [=] { logical_not(truth); }}},
      {"where", {3.25, [=] { where(truth, x, y); }}},
      {"fill_uniform", {1, [=]() mutable { fill_uniform(out, generator); }}},
      {"fill_normal", {1, [=]() mutable { fill_normal(out, generator); }}},
      {"dropout", {2, [=] { dropout(x, DropoutMask(0.1, {1})); }}},
      {"sum", {1, [=] { sum(x, {1}); }}},
      {"maximum_over", {1, [=] { maximum_over(x, {1}); }}},
      {"within_range", {2, [=] { rows_within_range(x, {}, 1e8, 1e18); }}},
      {"cumulative_sum", {2, [=] { cumulative_sum(x); }}},
      {"top_k", {1, [=] { top_k(x, 4); }}},
      {"global_norm", {1, [=] { global_norm(std::span(&x, 1)); }}},
      {"gemm", {2, [=]() mutable { gemm(x, weight, out); }}},
      {"gather_rows", {2, [=] { gather_rows(x, index); }}},
      {"scatter_add_rows", {3, [=]() mutable { scatter_add_rows(out, index, x); }}},
      {"gather_last", {4, [=] { gather_last(x, last); }}},
      {"scatter_add_last", {4, [=] { scatter_add_last(x, last, columns); }}},
      {"softmax", {2, [=] { softmax(x); }}},
      {"softmax_backward", {3, [=] { softmax_backward(x, y); }}},
      {"log_softmax", {2, [=] { log_softmax(x); }}},
      {"log_sum_exp", {1, [=] { log_sum_exp(x); }}},
      {"layer_norm", {2, [=] { layer_norm(x, gain, gain, 1e-5); }}},
      {"layer_norm_backward", {3, [=] { layer_norm_backward(x, y, gain, statistics, statistics); }}},
      {"layer_norm_backward_add", {4, [=] { layer_norm_backward(x, y, gain, statistics, statistics, x); }}},
      {"add_norm", {4, [=] { add_norm(x, y, {}, DropoutMask(0.1, {1}), gain, gain, 1e-5); }}},
      {"layer_norm_backward_drop",
       {4,
        [=] {
          const DropoutMask mask(0.1, {1});
          layer_norm_backward(x, y, gain, statistics, statistics, {}, &mask);
        }}},
      {"layer_norm_backward_add_drop",
       {5,
        [=] {
          const DropoutMask mask(0.1, {1});
          layer_norm_backward(x, y, gain, statistics, statistics, x, &mask);
        }}},
      {"cross_entropy", {1, [=] { cross_entropy(x, targets, 0.1, -1); }}},
      {"cross_entropy_backward", {2, [=] { cross_entropy_backward(per_row, x, targets, sums, 0.1, -1); }}},
      {"lstm_cell", {2.75, [=] { lstm_cell(x, cell); }}},
      {"lstm_cell_backward", {3.25, [=] { lstm_cell_backward(cell, cell, x, cell, cell); }}},
      {"adam_step",
       {7,
        [=]() mutable {
          map_several(formula::AdamUpdate{1e-9, 0.9, 0.98, 1e-9, 0, 1, 1}, {&out, &moment, &y},
                      {&x, &out, &moment, &y, &one});
        }}},
      {"sgd_step",
       {3,
        [=]() mutable {
          map_several(formula::SgdUpdate{1e-9, 0}, {&out}, {&x, &out, &one});
        }}},
  };
}

/// Returns a call of a functor with x as each of its operands.
template <class F, std::size_t... k>
Timing timing_of(const Tensor& x, std::index_sequence<k...>) {
  return {1.0 + sizeof...(k), [x] { map(F{}, (static_cast<void>(k), x)...); }};
}

/// Returns the rate of a call in GB/s, the median of three times 50 ms of calls.
double rate(const Timing& timing, Device device, std::int64_t rows) {
  const Turns turns(1, 3, [&](std::size_t) { return seconds_of_call(device, 0.05, timing.call); });
  return timing.tensors * double(rows * columns) * 4 / turns.middle(0) / 1e9;
}

}  // namespace

void benchmark_kernels(Cli& cli) {
  std::int64_t rows = 4096;
  BenchmarkFlags flags;
  cli.describe(
      "Lists the kernels of a device. A number is the rate at which a call reads and writes memory, in GB/s, for "
      "f32 operands of ROWS x 512 elements, over 50 ms of calls; 'yes' is a kernel that is not timed, '-' one that "
      "the device lacks. copy_bytes, a plain copy, is the ceiling that the others are compared with. On a GPU, "
      "operands that are larger than its cache need 65536 rows.");
  flags.add_to(cli, "", false);
  cli.option("--rows", rows, "rows of each operand").range(1, 1 << 20);
  cli.parse();
  const Device device = flags.start(cli);
  Table table({"kernel", fmt::format("{} ({}), GB/s", name(device), kernels(device).describe()), "of copy_bytes"});
  std::map<std::string, Timing> all = timings(device, rows);
  Tensor x = Tensor::full({rows, columns}, 0.75, DType::f32, device);
  for_functors<0>(ElementwiseFunctors{}, [&]<class F, int inputs>(TypedFunctor<F, inputs>) {
    all[F::name.text] = timing_of<F>(x, std::make_index_sequence<inputs>{});
  });
  const double ceiling = rate(all.at("copy_bytes"), device, rows);
  auto add = [&](const char* name, bool exists) {
    const auto timing = all.find(name);
    std::vector<Cell> row{Cell(name), Cell(exists ? "yes" : "-"), Cell()};
    if (exists && timing != all.end()) {
      const double own = rate(timing->second, device, rows);
      row[1] = Cell::number(own, 1), row[2] = Cell::number(own / ceiling, 2);
    }
    table.row(std::move(row));
  };
  auto add_functor = [&]<class F, int inputs>(TypedFunctor<F, inputs>) { add(F::name, true); };
  for_functors<0>(ElementwiseFunctors{}, add_functor);
  for_functors<0>(Joined<formula::LstmFormulas, formula::OptimizerFormulas>{}, add_functor);
  for (const KernelEntry* entry : kernels(device).entries()) add(entry->name(), entry->exists());
  fmt::print("{}", table.text());
}

}  // namespace fovea

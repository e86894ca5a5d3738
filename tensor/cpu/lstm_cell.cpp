// The LSTM cell on the CPU.
#include "tensor/lstm_cell.h"

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

template <class T>
void step_forward(const T* gates, const T* previous, T* activations, T* cell, T* hidden, std::int64_t n) {
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    auto gate = [&](int k) { return load_vector(gates + k * n + j, count); };
    Vec<T> input = sigmoid(gate(0)), forget = sigmoid(gate(1)), candidate = tanh(gate(2)), output = sigmoid(gate(3));
    Vec<T> next = forget * load_vector(previous + j, count) + input * candidate;
    store_vector(input, activations + j, count);
    store_vector(forget, activations + n + j, count);
    store_vector(candidate, activations + 2 * n + j, count);
    store_vector(output, activations + 3 * n + j, count);
    store_vector(next, cell + j, count);
    store_vector(output * tanh(next), hidden + j, count);
  });
}

template <class T>
void step_backward(const T* g_hidden, const T* g_cell, const T* activations, const T* previous, const T* cell,
                   T* d_gates, T* d_previous, std::int64_t n) {
  const Vec<T> one(T(1));
  for_vectors<T>(n, [&](std::int64_t j, auto count) {
    auto activation = [&](int k) { return load_vector(activations + k * n + j, count); };
    auto write = [&](int k, Vec<T> gradient) { store_vector(gradient, d_gates + k * n + j, count); };
    Vec<T> input = activation(0), forget = activation(1), candidate = activation(2), output = activation(3);
    Vec<T> squashed = tanh(load_vector(cell + j, count)), upstream = load_vector(g_hidden + j, count);
    Vec<T> d_cell = load_vector(g_cell + j, count) + upstream * output * (one - squashed * squashed);
    write(0, d_cell * candidate * input * (one - input));
    write(1, d_cell * load_vector(previous + j, count) * forget * (one - forget));
    write(2, d_cell * input * (one - candidate * candidate));
    write(3, upstream * squashed * output * (one - output));
    store_vector(d_cell * forget, d_previous + j, count);
  });
}

/// About eight exponentials per element.
std::int64_t row_grain(std::int64_t n) { return 1 + element_grain / (64 * n + 1); }

void lstm_cell(const Tensor& gates, const Tensor& previous_cell, LstmCellResult& result) {
  std::int64_t B = gates.size(0), n = previous_cell.size(1);
  Tensor from = with_unit_rows(gates), before = with_unit_rows(previous_cell);
  visit_real("lstm_cell", gates.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    Rows<const T> gate(from), previous(before);
    Rows<T> hidden(result.hidden), cell(result.cell), activations(result.activations);
    parallel_for(B, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        step_forward(gate[b], previous[b], activations[b], cell[b], hidden[b], n);
    });
  });
}

void lstm_cell_backward(const Tensor& g_hidden, const Tensor& g_cell, const Tensor& activations,
                        const Tensor& previous_cell, const Tensor& cell, LstmCellGradients& gradients) {
  std::int64_t B = cell.size(0), n = cell.size(1);
  Tensor on_hidden = with_unit_rows(g_hidden), on_cell = with_unit_rows(g_cell), saved = with_unit_rows(activations),
         before = with_unit_rows(previous_cell), after = with_unit_rows(cell);
  visit_real("lstm_cell", cell.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    Rows<const T> upstream(on_hidden), upstream_cell(on_cell), activation(saved), previous(before), next(after);
    Rows<T> d_gates(gradients.gates), d_previous(gradients.previous_cell);
    parallel_for(B, row_grain(n), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        step_backward(upstream[b], upstream_cell[b], activation[b], previous[b], next[b], d_gates[b], d_previous[b], n);
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.lstm_cell = lstm_cell;
  table.lstm_cell_backward = lstm_cell_backward;
});

}  // namespace
}  // namespace fovea::cpu

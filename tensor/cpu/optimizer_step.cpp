// Updates of parameters on the CPU.
#include "tensor/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"
#include "tensor/kernels.h"
#include "tensor/requirements.h"

namespace fovea::cpu {

namespace {

/// The gradient in the parameter's layout.
Tensor aligned_gradient(const Tensor& parameter, const Tensor& gradient) {
  if (has_same_layout(gradient, parameter)) return gradient;
  Tensor aligned = Tensor::empty_like(parameter);
  aligned.copy_from(gradient);
  return aligned;
}

/// Many flat arrays as one: `ends[k]` is the number of elements in the first k + 1.
class FlatList {
 public:
  void add(std::int64_t elements) { ends_.push_back(total() + elements); }
  std::int64_t total() const { return ends_.empty() ? 0 : ends_.back(); }

  /// body(k, begin, end) for the pieces of arrays that the elements first ≤ i < last lie in.
  template <class Body>
  void for_pieces(std::int64_t first, std::int64_t last, const Body& body) const {
    auto k = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), first) - ends_.begin());
    for (; first < last; ++k) {
      std::int64_t start = k == 0 ? 0 : ends_[k - 1], end = std::min(last, ends_[k]);
      if (first < end) body(k, first - start, end - start);
      first = end;
    }
  }

 private:
  std::vector<std::int64_t> ends_;
};

template <class T, class Formula>
void update_piece(const Formula& formula, const UpdateSlot& slot, const Tensor& gradient, std::int64_t begin,
                  std::int64_t n) {
  using V = Vec<T>;
  constexpr std::size_t states = Formula::states;
  const T* from = gradient.data<T>() + begin;
  std::array<T*, states> state;
  for (std::size_t k = 0; k < states; ++k) state[k] = slot.state[k].mutable_data<T>() + begin;
  for_vectors<T>(n, [&](std::int64_t i, auto count) {
    std::array<V, states> before;
    for (std::size_t k = 0; k < states; ++k) before[k] = load_vector(state[k] + i, count);
    std::array<V, states> after = formula(load_vector(from + i, count), before);
    for (std::size_t k = 0; k < states; ++k) store_vector(after[k], state[k] + i, count);
  });
}

/// All parameters in one pass: threads share out the list of all elements.
template <class Formula>
void update(const Formula& formula, std::span<const UpdateSlot> slots) {
  FlatList list;
  std::vector<Tensor> gradients;
  for (const UpdateSlot& slot : slots) {
    gradients.push_back(aligned_gradient(slot.state[0], slot.gradient));
    list.add(slot.state[0].elements());
  }
  parallel_for(list.total(), element_grain / 4, [&](std::int64_t first, std::int64_t last) {
    list.for_pieces(first, last, [&](std::size_t k, std::int64_t begin, std::int64_t end) {
      visit_real(Formula::name, slots[k].state[0].dtype(), [&](auto type) {
        update_piece<typename decltype(type)::type>(formula, slots[k], gradients[k], begin, end - begin);
      });
    });
  });
}

template <class... Formulas>
void provide_updates(Kernels& table, FunctorList<Formulas...>) {
  ((table.updates[place_of<Formulas>(formula::UpdateFormulas{})] =
        [](const void* formula, std::span<const UpdateSlot> slots) {
          update(*static_cast<const Formulas*>(formula), slots);
        }),
   ...);
}

template <class T>
double sum_of_squares(const T* x, std::int64_t n) {
  constexpr int lanes = 16;
  double part[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) part[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
  for (; i < n; ++i) part[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (double sum : part) total += sum;
  return total;
}

double global_norm(std::span<const Tensor> tensors) {
  // pieces are cut at fixed places in the list: so are the sums
  constexpr std::int64_t piece = 16384;
  FlatList list;
  std::vector<Tensor> flat;
  for (const Tensor& x : tensors) {
    flat.push_back(x.is_dense() ? x : x.contiguous());
    list.add(x.elements());
  }
  std::vector<double> sums(static_cast<std::size_t>((list.total() + piece - 1) / piece));
  parallel_for(static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t s = begin; s < end; ++s)
      list.for_pieces(s * piece, std::min((s + 1) * piece, list.total()),
                      [&](std::size_t k, std::int64_t first, std::int64_t last) {
                        visit_real("global_norm", flat[k].dtype(), [&](auto type) {
                          using T = typename decltype(type)::type;
                          sums[static_cast<std::size_t>(s)] += sum_of_squares(flat[k].data<T>() + first, last - first);
                        });
                      });
  });
  double total = 0;
  for (double sum : sums) total += sum;
  return std::sqrt(total);
}

const Provide provide(Device::cpu, [](Kernels& table) {
  provide_updates(table, formula::UpdateFormulas{});
  table.global_norm = global_norm;
});

}  // namespace
}  // namespace fovea::cpu

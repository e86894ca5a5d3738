#include "tensor/optimizer_step.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/row_loop.h"
#include "tensor/formula/math.h"

namespace fovea {

namespace {

bool same_layout(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return false;
  for (int d = 0; d < a.rank(); ++d)
    if (a.size(d) > 1 && a.strides()[d] != b.strides()[d]) return false;
  return true;
}

void require_state(const char* what, const char* which, std::size_t k, const Tensor& parameter, const Tensor& state) {
  require(state.defined() && state.dtype() == parameter.dtype() && state.device() == parameter.device() &&
              same_layout(state, parameter),
          "{}: parameter {} is {}, its {} {}; they must agree in shape, type, device and layout", what, k, parameter,
          which, state);
}

/// The gradient in the parameter's layout.
Tensor aligned_gradient(const char* what, std::size_t k, const Tensor& parameter, const Tensor& gradient) {
  require(parameter.defined() && parameter.device() == Device::cpu && parameter.is_dense(),
          "{}: parameter {} is {}; it must be dense and on the CPU", what, k, parameter);
  require(gradient.defined() && gradient.shape() == parameter.shape() && gradient.dtype() == parameter.dtype() &&
              gradient.device() == parameter.device(),
          "{}: parameter {} is {}, its gradient {}; they must agree in shape, type and device", what, k, parameter,
          gradient);
  if (same_layout(gradient, parameter)) return gradient;
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

/// The state of one parameter as flat arrays of n elements; b is absent in SGD, a too without momentum.
template <class T>
struct Update {
  T* parameter;
  const T* gradient;
  T *a, *b;
};

template <class T>
T* at(const Tensor& x, std::int64_t begin) {
  return x.defined() ? x.data<T>() + begin : nullptr;
}

/// Two threads would update a parameter that is there twice.
template <class Slot>
void require_distinct(const char* what, std::span<const Slot> slots) {
  std::vector<std::pair<const std::byte*, std::size_t>> begins;
  for (std::size_t k = 0; k < slots.size(); ++k)
    if (slots[k].parameter.elements() > 0) begins.emplace_back(slots[k].parameter.address(), k);
  std::sort(begins.begin(), begins.end());
  for (std::size_t i = 1; i < begins.size(); ++i) {
    const std::size_t before = std::min(begins[i - 1].second, begins[i].second),
                      after = std::max(begins[i - 1].second, begins[i].second);
    require(begins[i - 1].first + slots[begins[i - 1].second].parameter.bytes() <= begins[i].first,
            "{}: parameters {} and {}, {} and {}, share memory; list each parameter once", what, before, after,
            slots[before].parameter, slots[after].parameter);
  }
}

/// update(pointers to a piece, its elements) for all slots; `a` and `b` name the two members that hold state.
template <class Slot, class Apply>
void for_slots(const char* what, std::span<Slot> slots, Tensor Slot::*a, Tensor Slot::*b, const Apply& apply) {
  FlatList list;
  std::vector<Tensor> gradients;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    gradients.push_back(aligned_gradient(what, k, slots[k].parameter, slots[k].gradient));
    visit_real(what, slots[k].parameter.dtype(), [](auto) {});
    list.add(slots[k].parameter.elements());
  }
  require_distinct<Slot>(what, slots);
  for (Slot& slot : slots) slot.parameter.changed();
  parallel_for(list.total(), element_grain / 4, [&](std::int64_t first, std::int64_t last) {
    list.for_pieces(first, last, [&](std::size_t k, std::int64_t begin, std::int64_t end) {
      const Slot& slot = slots[k];
      visit_real(what, slot.parameter.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        apply(Update<T>{at<T>(slot.parameter, begin), at<T>(gradients[k], begin), at<T>(slot.*a, begin),
                        at<T>(slot.*b, begin)},
              end - begin);
      });
    });
  });
}

struct SgdUpdate {
  SgdOptions options;
  double gradient_scale;

  template <class T>
  void operator()(Update<T> slot, std::int64_t n) const {
    auto constant = [](double value) { return Vec<T>(static_cast<T>(value)); };
    Vec<T> rate = constant(options.learning_rate), momentum = constant(options.momentum),
           decay = constant(options.weight_decay), scale = constant(gradient_scale);
    for_vectors<T>(n, [&](std::int64_t i, auto count) {
      Vec<T> p = load_vector(slot.parameter + i, count), g = load_vector(slot.gradient + i, count) * scale + decay * p;
      if (slot.a) {
        g += momentum * load_vector(slot.a + i, count);
        store_vector(g, slot.a + i, count);
      }
      store_vector(p - rate * g, slot.parameter + i, count);
    });
  }
};

struct AdamUpdate {
  AdamOptions options;
  double gradient_scale, mean_correction, square_correction;

  AdamUpdate(const AdamOptions& options, std::int64_t step, double gradient_scale)
      : options(options),
        gradient_scale(gradient_scale),
        mean_correction(1 - std::pow(options.beta1, static_cast<double>(step))),
        square_correction(1 - std::pow(options.beta2, static_cast<double>(step))) {}

  template <class T>
  void operator()(Update<T> slot, std::int64_t n) const {
    auto constant = [](double value) { return Vec<T>(static_cast<T>(value)); };
    double decay = options.weight_decay;
    Vec<T> scale = constant(gradient_scale), through_gradient = constant(options.decoupled ? 0 : decay),
           keep = constant(options.decoupled ? 1 - options.learning_rate * decay : 1);
    Vec<T> beta1 = constant(options.beta1), beta2 = constant(options.beta2), other1 = constant(1 - options.beta1),
           other2 = constant(1 - options.beta2);
    Vec<T> rate = constant(options.learning_rate / mean_correction),
           deviation_scale = constant(1 / std::sqrt(square_correction)), epsilon = constant(options.epsilon);
    for_vectors<T>(n, [&](std::int64_t i, auto count) {
      Vec<T> p = load_vector(slot.parameter + i, count);
      Vec<T> g = load_vector(slot.gradient + i, count) * scale + through_gradient * p;
      Vec<T> mean = beta1 * load_vector(slot.a + i, count) + other1 * g;
      Vec<T> square = beta2 * load_vector(slot.b + i, count) + other2 * (g * g);
      store_vector(mean, slot.a + i, count);
      store_vector(square, slot.b + i, count);
      store_vector(keep * p - rate * mean / (sqrt(square) * deviation_scale + epsilon), slot.parameter + i, count);
    });
  }
};

}  // namespace

void sgd_step(std::span<SgdSlot> slots, const SgdOptions& options, double gradient_scale) {
  for (std::size_t k = 0; k < slots.size(); ++k)
    if (options.momentum != 0 || slots[k].velocity.defined()) {
      require_state("sgd_step", "velocity", k, slots[k].parameter, slots[k].velocity);
      slots[k].velocity.changed();
    }
  for_slots("sgd_step", slots, &SgdSlot::velocity, &SgdSlot::velocity, SgdUpdate{options, gradient_scale});
}

void adam_step(std::span<AdamSlot> slots, const AdamOptions& options, std::int64_t step, double gradient_scale) {
  require(step >= 1, "adam_step: steps count from 1, this one is {}", step);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    require_state("adam_step", "mean", k, slots[k].parameter, slots[k].mean);
    require_state("adam_step", "square", k, slots[k].parameter, slots[k].square);
    slots[k].mean.changed();
    slots[k].square.changed();
  }
  for_slots("adam_step", slots, &AdamSlot::mean, &AdamSlot::square, AdamUpdate(options, step, gradient_scale));
}

namespace {

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

}  // namespace

double global_norm(std::span<const Tensor> tensors) {
  // pieces are cut at fixed places in the list: so are the sums
  constexpr std::int64_t piece = 16384;
  FlatList list;
  std::vector<Tensor> flat;
  for (const Tensor& x : tensors) {
    require_rows("global_norm", x.rank() == 0 ? x.unsqueeze(0) : x);
    visit_real("global_norm", x.dtype(), [](auto) {});
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

}  // namespace fovea

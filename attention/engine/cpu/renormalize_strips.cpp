// Weights divided by their sum, on strips.
#include "attention/engine/cpu/strip_parts.h"
#include "attention/engine/cpu/strips.h"

namespace fovea {

namespace {

template <class T>
class RenormalizeStrips : public StripTerm<T> {
 public:
  void forward(const StripRows<T>& rows, const T* from, T* to, Workspace&) const override {
    for_rows(rows, from, to, [](Vec<T> w, Vec<T>, Vec<T> total, Vec<T>) { return w / total; });
  }
  /// The gradient of w / Σ w: (g − Σ g w / Σ w) / Σ w, and g / least if Σ w < least.
  void backward(const StripRows<T>& rows, const T* from, T* gradient, std::span<Tensor>, Workspace&) const override {
    for_rows(rows, from, gradient, [](Vec<T>, Vec<T> g, Vec<T> total, Vec<T> mean) { return (g - mean) / total; });
  }

 private:
  /// x = change(w, x, max(Σ w, least), Σ x w / Σ w) for the keys of all rows.
  template <class Change>
  static void for_rows(const StripRows<T>& rows, const T* weights, T* x, Change&& change) {
    for (std::int64_t r = 0; r < rows.count; ++r, weights += rows.stride, x += rows.stride) {
      const std::int64_t first = rows.first[r], n = rows.end[r] - first;
      T total =
          sum_of_vectors<T>(n, [&](std::int64_t j, auto count) { return load_vector(weights + first + j, count); });
      T both = sum_of_vectors<T>(n, [&](std::int64_t j, auto count) {
        return load_vector(weights + first + j, count) * load_vector(x + first + j, count);
      });
      bool small = total < T(Renormalization::least);
      const Vec<T> divisor(small ? T(Renormalization::least) : total), mean(small ? T(0) : both / total);
      for_keys<T>(first, rows.end[r], [&](std::int64_t j, auto count) {
        store_vector(change(load_vector(weights + j, count), load_vector(x + j, count), divisor, mean), x + j, count);
      });
    }
  }
};

}  // namespace

template <class T>
std::unique_ptr<StripTerm<T>> renormalize_strips() {
  return std::make_unique<RenormalizeStrips<T>>();
}
template std::unique_ptr<StripTerm<float>> renormalize_strips();
template std::unique_ptr<StripTerm<double>> renormalize_strips();

}  // namespace fovea

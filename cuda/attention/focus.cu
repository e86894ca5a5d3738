#include "cuda/attention/focus.h"
#include "cuda/launch.h"

namespace fovea::cuda {

namespace {

constexpr unsigned heads_of_block = 32;

/// A thread goes through a head's queries from the last to the first.
template <class T>
__global__ void gradients_of_focus(FocusGradients<T> of, std::int64_t heads, std::int64_t I) {
  const std::int64_t head = std::int64_t{blockIdx.x} * heads_of_block + threadIdx.x;
  if (head >= heads) return;
  T from_next = T(0);
  for (std::int64_t at = head * I + I - 1; at >= head * I; --at) {
    const T gradient = of.given ? of.given[at] + from_next : from_next;
    of.gradient[at] = gradient;
    from_next = of.by_out[at] + of.slope[at] * gradient;
  }
  of.of_previous[head] = from_next;
}

}  // namespace

template <class T>
void carry_focus(const FocusGradients<T>& of, std::int64_t heads, std::int64_t I) {
  if (heads * I == 0) return;
  launch("attention_carry_focus", 4 * heads * I * static_cast<std::int64_t>(sizeof(T)), gradients_of_focus<T>,
         {static_cast<unsigned>((heads + heads_of_block - 1) / heads_of_block), heads_of_block}, of, heads, I);
}
template void carry_focus(const FocusGradients<float>&, std::int64_t, std::int64_t);
template void carry_focus(const FocusGradients<double>&, std::int64_t, std::int64_t);

}  // namespace fovea::cuda

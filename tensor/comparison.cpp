#include "tensor/comparison.h"

#include <functional>

#include "tensor/element_loop.h"

namespace fovea {

namespace {

void require_same_type(const char* what, const Tensor& a, const Tensor& b) {
  require(a.defined() && b.defined() && a.dtype() == b.dtype() && a.device() == b.device(),
          "{}: the operands differ: {} and {}; cast or move one of them", what, a, b);
  require(a.device() == Device::cpu, "{}: has no CUDA kernel; {} lies on {}", what, a, name(a.device()));
}

/// How far the elements of a run lie apart, for each operand.
template <int operands>
std::array<std::int64_t, operands> run_steps(const ElementLoop<operands>& loop) {
  std::array<std::int64_t, operands> step;
  for (int k = 0; k < operands; ++k) step[k] = loop.strides[k][-1];
  return step;
}

/// out[i] = op(a[i], b[i]); the steps that occur are spelt out, so that the compiler makes vectors of them.
template <class Out, class In, class Op>
void combine_run(const Op& op, Out* out, const In* a, std::int64_t a_step, const In* b, std::int64_t b_step,
                 std::int64_t count) {
  const In left = *a, right = *b;
  if (a_step == 1 && b_step == 1)
    for (std::int64_t i = 0; i < count; ++i) out[i] = op(a[i], b[i]);
  else if (a_step == 1 && b_step == 0)
    for (std::int64_t i = 0; i < count; ++i) out[i] = op(a[i], right);
  else if (a_step == 0 && b_step == 1)
    for (std::int64_t i = 0; i < count; ++i) out[i] = op(left, b[i]);
  else
    for (std::int64_t i = 0; i < count; ++i) out[i] = op(a[i * a_step], b[i * b_step]);
}

template <class In, class Op>
void combine(const Tensor& a, const Tensor& b, Tensor& out, const Op& op) {
  const In *left = a.data<In>(), *right = b.data<In>();
  bool* to = out.data<bool>();
  auto loop = plan_loop<3>(out.shape(), {&out, &a, &b});
  auto step = run_steps(loop);
  for_runs<3>(loop, [&](auto& first, std::int64_t count) {
    combine_run(op, to + first[0], left + first[1], step[1], right + first[2], step[2], count);
  });
}

template <class Op>
Tensor compare(const char* what, const Tensor& a, const Tensor& b, const Op& op) {
  require_same_type(what, a, b);
  Tensor out = Tensor::empty(broadcast(what, a.shape(), b.shape()), DType::boolean);
  if (out.elements() == 0) return out;
  visit(a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    combine<T>(a, b, out, [&](const T& x, const T& y) { return op(x, y); });
  });
  return out;
}

template <class Op>
Tensor combine_truths(const char* what, const Tensor& a, const Tensor& b, const Op& op) {
  require(a.dtype() == DType::boolean && b.dtype() == DType::boolean,
          "{}: the operands must be bool, they are {} and {}", what, a, b);
  require_same_type(what, a, b);
  Tensor out = Tensor::empty(broadcast(what, a.shape(), b.shape()), DType::boolean);
  if (out.elements() > 0) combine<bool>(a, b, out, op);
  return out;
}

template <class T>
void choose_run(T* out, const std::uint8_t* condition, std::int64_t condition_step, const T* a, std::int64_t a_step,
                const T* b, std::int64_t b_step, std::int64_t count) {
  const T yes = *a, no = *b;
  if (condition_step == 1 && a_step == 1 && b_step == 1)
    for (std::int64_t i = 0; i < count; ++i) out[i] = condition[i] ? a[i] : b[i];
  else if (condition_step == 1 && a_step == 1 && b_step == 0)
    for (std::int64_t i = 0; i < count; ++i) out[i] = condition[i] ? a[i] : no;
  else if (condition_step == 1 && a_step == 0 && b_step == 1)
    for (std::int64_t i = 0; i < count; ++i) out[i] = condition[i] ? yes : b[i];
  else
    for (std::int64_t i = 0; i < count; ++i) out[i] = condition[i * condition_step] ? a[i * a_step] : b[i * b_step];
}

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  require_same_type("where", a, b);
  require(condition.defined() && (condition.dtype() == DType::boolean || condition.dtype() == DType::u8) &&
              condition.device() == a.device(),
          "where: the condition is {}; it must be bool or u8, on {}", condition, name(a.device()));
  Tensor out =
      Tensor::empty(broadcast("where", condition.shape(), broadcast("where", a.shape(), b.shape())), a.dtype());
  if (out.elements() == 0) return out;
  auto loop = plan_loop<4>(out.shape(), {&out, &condition, &a, &b});
  auto step = run_steps(loop);
  const auto* truths = reinterpret_cast<const std::uint8_t*>(condition.address());
  visit(a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *yes = a.data<T>(), *no = b.data<T>();
    T* to = out.data<T>();
    for_runs<4>(loop, [&](auto& first, std::int64_t count) {
      choose_run(to + first[0], truths + first[1], step[1], yes + first[2], step[2], no + first[3], step[3], count);
    });
  });
  return out;
}

Tensor less(const Tensor& a, const Tensor& b) { return compare("less", a, b, std::less<>{}); }
Tensor less_equal(const Tensor& a, const Tensor& b) { return compare("less_equal", a, b, std::less_equal<>{}); }
Tensor equal(const Tensor& a, const Tensor& b) { return compare("equal", a, b, std::equal_to<>{}); }

Tensor logical_and(const Tensor& a, const Tensor& b) {
  return combine_truths("logical_and", a, b, [](bool x, bool y) -> bool { return x & y; });
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return combine_truths("logical_or", a, b, [](bool x, bool y) -> bool { return x | y; });
}
Tensor logical_not(const Tensor& a) {
  return combine_truths("logical_not", a, a, [](bool x, bool) -> bool { return !x; });
}

}  // namespace fovea

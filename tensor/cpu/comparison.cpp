// Comparisons, logic and choice on the CPU.
#include "tensor/element_loop.h"
#include "tensor/kernels.h"

namespace fovea::cpu {

namespace {

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
  bool* to = out.mutable_data<bool>();
  auto loop = plan_loop<3>(out.shape(), {&out, &a, &b});
  auto step = run_steps(loop);
  for_runs<3>(loop, [&](auto& first, std::int64_t count) {
    combine_run(op, to + first[0], left + first[1], step[1], right + first[2], step[2], count);
  });
}

void compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& out) {
  formula::visit_functor(comparison, [&](auto op) {
    visit(a.dtype(), [&](auto type) { combine<typename decltype(type)::type>(a, b, out, op); });
  });
}

void logic(Logic logic, const Tensor& a, const Tensor& b, Tensor& out) {
  formula::visit_functor(logic, [&](auto op) { combine<bool>(a, b, out, op); });
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

void where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  auto loop = plan_loop<4>(out.shape(), {&out, &condition, &a, &b});
  auto step = run_steps(loop);
  const auto* truths = reinterpret_cast<const std::uint8_t*>(condition.address());
  visit(a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const T *yes = a.data<T>(), *no = b.data<T>();
    T* to = out.mutable_data<T>();
    for_runs<4>(loop, [&](auto& first, std::int64_t count) {
      choose_run(to + first[0], truths + first[1], step[1], yes + first[2], step[2], no + first[3], step[3], count);
    });
  });
}

const Provide provide(Device::cpu, [](Kernels& table) {
  table.compare = compare;
  table.logic = logic;
  table.where = where;
});

}  // namespace
}  // namespace fovea::cpu

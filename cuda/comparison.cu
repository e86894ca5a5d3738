// Comparisons, logic and choice on the GPU.
#include "cuda/launch.h"
#include "tensor/kernels.h"

namespace fovea::cuda {

namespace {

template <class T, class Op>
__global__ void combine_elements(Op op, DeviceLoop<3> loop, bool* out, const T* a, const T* b) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[3];
    loop.offsets(element, offset);
    out[offset[0]] = op(a[offset[1]], b[offset[2]]);
  });
}

template <class T>
__global__ void choose_elements(DeviceLoop<4> loop, T* out, const std::uint8_t* condition, const T* a, const T* b) {
  for_elements(loop.count, [&](std::int64_t element) {
    std::int64_t offset[4];
    loop.offsets(element, offset);
    out[offset[0]] = condition[offset[1]] ? a[offset[2]] : b[offset[3]];
  });
}

template <class T, class Op>
void combine(const char* name, Op op, const Tensor& a, const Tensor& b, Tensor& out) {
  DeviceLoop<3> loop(plan_loop<3>(out.shape(), {&out, &a, &b}));
  launch(name, combine_elements<T, Op>, {blocks_for(loop.count)}, op, loop, out.mutable_data<bool>(), a.data<T>(),
         b.data<T>());
}

void compare(Comparison comparison, const Tensor& a, const Tensor& b, Tensor& out) {
  formula::visit_functor(comparison, [&](auto op) {
    visit(a.dtype(), [&](auto type) { combine<typename decltype(type)::type>("compare", op, a, b, out); });
  });
}

void logic(Logic logic, const Tensor& a, const Tensor& b, Tensor& out) {
  formula::visit_functor(logic, [&](auto op) { combine<bool>("logic", op, a, b, out); });
}

void where(const Tensor& condition, const Tensor& a, const Tensor& b, Tensor& out) {
  DeviceLoop<4> loop(plan_loop<4>(out.shape(), {&out, &condition, &a, &b}));
  visit(a.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    launch("where", choose_elements<T>, {blocks_for(loop.count)}, loop, out.mutable_data<T>(),
           reinterpret_cast<const std::uint8_t*>(condition.address()), a.data<T>(), b.data<T>());
  });
}

const Provide provide(Device::cuda, [](Kernels& table) {
  table.compare = compare;
  table.logic = logic;
  table.where = where;
});

}  // namespace

}  // namespace fovea::cuda

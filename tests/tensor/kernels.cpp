#include "tensor/kernels.h"

#include "autograd/operations/cross_entropy.h"
#include "autograd/operations/gather.h"
#include "autograd/operations/layer_norm.h"
#include "autograd/operations/lstm_cell.h"
#include "autograd/operations/softmax.h"
#include "nn/optimizer_formulas.h"
#include "tensor/comparison.h"
#include "tensor/formula/arithmetic.h"
#include "tensor/gemm.h"
#include "tensor/map.h"
#include "tensor/random.h"
#include "tensor/reduce.h"
#include "tensor/top_k.h"
#include "tests/refusal.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

/// The entries that a device lacks, by name.
std::vector<std::string> missing(Device device) {
  std::vector<std::string> names;
  for (const KernelEntry* entry : kernel_table(device).entries())
    if (!entry->exists()) names.push_back(entry->name());
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_tables)

BOOST_AUTO_TEST_CASE(every_device_has_every_kernel) {
  BOOST_TEST(missing(Device::cpu) == std::vector<std::string>(), boost::test_tools::per_element());
  if (kernel_table(Device::cuda).allocate.exists())  // CUDA was built
    BOOST_TEST(missing(Device::cuda) == std::vector<std::string>(), boost::test_tools::per_element());
  BOOST_TEST(kernels(Device::cpu).entries().size() > 40u);
}

BOOST_AUTO_TEST_CASE(both_tables_have_the_same_entries) {
  auto cpu = kernel_table(Device::cpu).entries(), cuda = kernel_table(Device::cuda).entries();
  BOOST_REQUIRE(cpu.size() == cuda.size());
  for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::string(cpu[k]->name()) == cuda[k]->name());
}

BOOST_AUTO_TEST_CASE(operands_on_two_devices_are_refused, *skipped_for([]() -> std::string {
                       return cuda_is_available() ? "" : "there is one device only";
                     })) {
  struct Front {
    const char* name;
    std::function<void(const Tensor& x, const Tensor& y)> call;  ///< of two f32 [3, 3]
  };
  auto index = [](const Tensor& x) { return x.to(DType::i64); };
  auto truths = [](const Tensor& x) { return x.to(DType::boolean); };
  const std::vector<Front> fronts{
      {"map", [](auto& x, auto& y) { map(Add{}, x, y); }},
      {"map_into",
       [](auto& x, auto& y) {
         Tensor out = x;
         map_into(out, Add{}, y, y);
       }},
      {"less", [](auto& x, auto& y) { less(x, y); }},
      {"logical_and", [&](auto& x, auto& y) { logical_and(truths(x), truths(y)); }},
      {"where, condition", [&](auto& x, auto& y) { where(truths(x), y, y); }},
      {"where", [&](auto& x, auto& y) { where(truths(x), x, y); }},
      {"matmul", [](auto& x, auto& y) { matmul(x, y); }},
      {"gemm",
       [](auto& x, auto& y) {
         Tensor out = x;
         gemm(y, y, out);
       }},
      {"matmul_plus_bias", [](auto& x, auto& y) { matmul_plus_bias(x, x, y.select(0, 0)); }},
      {"gemm_with_column_sums",
       [](auto& x, auto& y) {
         Tensor out = x;
         gemm_with_column_sums(y, y, out);
       }},
      {"gather_rows", [&](auto& x, auto& y) { gather_rows(x, index(y)); }},
      {"gather_rows_into", [&](auto& x, auto& y) { gather_rows_into(x, index(x).select(0, 0), y); }},
      {"scatter_add_rows",
       [&](auto& x, auto& y) {
         Tensor table = x;
         scatter_add_rows(table, index(x).select(0, 0), y);
       }},
      {"gather_last", [&](auto& x, auto& y) { gather_last(x, index(y)); }},
      {"scatter_add_last", [&](auto& x, auto& y) { scatter_add_last(x, index(y), 3); }},
      {"dropout_add",
       [](auto& x, auto& y) {
         dropout_add(x, y, DropoutMask(0.5, {1, 2}));
       }},
      {"softmax", [&](auto& x, auto& y) { softmax(x, truths(y)); }},
      {"softmax_backward", [](auto& x, auto& y) { softmax_backward(x, y); }},
      {"layer_norm, gain", [](auto& x, auto& y) { layer_norm(x, y.select(0, 0), x.select(0, 0), 1e-5); }},
      {"layer_norm, bias", [](auto& x, auto& y) { layer_norm(x, x.select(0, 0), y.select(0, 0), 1e-5); }},
      {"layer_norm_backward",
       [](auto& x, auto& y) { layer_norm_backward(y, x, x.select(0, 0), x.select(0, 0), x.select(0, 0)); }},
      {"layer_norm_backward_add",
       [](auto& x, auto& y) { layer_norm_backward(x, x, x.select(0, 0), x.select(0, 0), x.select(0, 0), y); }},
      {"add_norm",
       [](auto& x, auto& y) {
         add_norm(x, y, {}, DropoutMask(0.5, {1, 2}), x.select(0, 0), x.select(0, 0), 1e-5);
       }},
      {"add_norm, number",
       [](auto& x, auto& y) {
         add_norm(x, x, y.select(0, 0), DropoutMask(0.5, {1, 2}), x.select(0, 0), x.select(0, 0), 1e-5);
       }},
      {"cross_entropy", [&](auto& x, auto& y) { cross_entropy(x, index(y).select(0, 0), 0, -1); }},
      {"cross_entropy_backward",
       [&](auto& x, auto& y) {
         cross_entropy_backward(y.select(0, 0), x, index(x).select(0, 0), x.to(DType::f64).select(0, 0), 0, -1);
       }},
      {"lstm_cell",
       [](auto& x, auto& y) {
         lstm_cell(x.select(1, 0).unsqueeze(1).expand({3, 12}), y);
       }},
      {"map_several",
       [](auto& x, auto& y) {
         Tensor result = x;
         const Tensor number = x.select(0, 0).select(0, 0);
         map_several(formula::SgdUpdate{0.1, 0}, {&result}, {&y, &x, &number});
       }},
      {"map_several, shared",
       [](auto& x, auto& y) {
         Tensor result = x;
         const Tensor number = y.select(0, 0).select(0, 0);
         map_several(formula::SgdUpdate{0.1, 0}, {&result}, {&x, &x, &number});
       }},
      {"map_several, groups",
       [](auto& x, auto& y) {
         Tensor a = x, b = y;
         map_several(formula::ClipScale{1, 1}, {{{&a}, {&x}}, {{&b}, {&y}}});
       }},
      {"global_norm",
       [](auto& x, auto& y) {
         std::vector<Tensor> both{x, y};
         global_norm(both);
       }},
  };
  Tensor on_cpu = Tensor::zeros({3, 3}), on_cuda = Tensor::zeros({3, 3}, DType::f32, Device::cuda);
  for (const Front& front : fronts)
    for (bool cpu_first : {false, true}) {
      auto call = [&] { cpu_first ? front.call(on_cpu, on_cuda) : front.call(on_cuda, on_cpu); };
      const std::string message = message_of(call);
      BOOST_TEST_MESSAGE(message);
      BOOST_TEST((message != "no error" && message.find("no kernel") == std::string::npos),
                 front.name << (cpu_first ? ", CPU first: " : ", CUDA first: ") << message);
    }
}

BOOST_AUTO_TEST_CASE(a_missing_kernel_is_one_line_with_the_way_out) {
  Kernels nothing(Device::cuda);
  TopK out;
  BOOST_TEST(message_of([&] { nothing.top_k(Tensor(), out); }) ==
             "top_k: there is no kernel for it on cuda; move its operands to the CPU, x.to(Device::cpu), or run with "
             "--device cpu");
}

BOOST_AUTO_TEST_SUITE_END()

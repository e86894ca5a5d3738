#include "tensor/kernels.h"

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

std::string why_cuda_lacks_nothing() {
  if (!cuda_is_available()) return "there is no GPU";
  return kernel_table(Device::cuda).top_k.exists() ? "cuda has top_k" : "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_tables)

BOOST_AUTO_TEST_CASE(the_cpu_has_every_kernel) {
  BOOST_TEST(missing(Device::cpu).empty());
  BOOST_TEST(kernels(Device::cpu).entries().size() > 3u * functor_count + 30);
}

BOOST_AUTO_TEST_CASE(both_tables_have_the_same_entries) {
  auto cpu = kernel_table(Device::cpu).entries(), cuda = kernel_table(Device::cuda).entries();
  BOOST_REQUIRE(cpu.size() == cuda.size());
  for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::string(cpu[k]->name()) == cuda[k]->name());
}

BOOST_AUTO_TEST_CASE(a_kernel_that_cuda_lacks_is_one_line_with_the_way_out, *skipped_for(why_cuda_lacks_nothing)) {
  for (const std::string& name : missing(Device::cuda)) BOOST_TEST_MESSAGE("cuda lacks " << name);
  Tensor x = Tensor::zeros({2, 3}, DType::f32, Device::cuda);
  BOOST_TEST(message_of([&] { top_k(x, 2); }) ==
             "top_k: there is no kernel for it on cuda; move its operands to the CPU, x.to(Device::cpu), or run with "
             "--device cpu");
}

BOOST_AUTO_TEST_SUITE_END()

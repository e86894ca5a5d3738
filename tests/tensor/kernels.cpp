#include "tensor/kernels.h"

#include <boost/test/unit_test.hpp>
#include <fmt/ranges.h>

#include "tensor/softmax.h"
#include "tensor/top_k.h"

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

BOOST_AUTO_TEST_CASE(the_cpu_has_every_kernel) {
  BOOST_TEST(missing(Device::cpu).empty());
  BOOST_TEST(kernels(Device::cpu).entries().size() > 3u * functor_count + 30);
}

BOOST_AUTO_TEST_CASE(both_tables_have_the_same_entries) {
  auto cpu = kernel_table(Device::cpu).entries(), cuda = kernel_table(Device::cuda).entries();
  BOOST_REQUIRE(cpu.size() == cuda.size());
  for (std::size_t k = 0; k < cpu.size(); ++k) BOOST_TEST(std::string(cpu[k]->name()) == cuda[k]->name());
}

BOOST_AUTO_TEST_CASE(a_kernel_that_a_device_lacks_is_one_line_with_the_way_out) {
  if (!cuda_is_available()) return;
  BOOST_TEST_MESSAGE(
      fmt::format("cuda lacks {} kernels: {}", missing(Device::cuda).size(), fmt::join(missing(Device::cuda), ", ")));
  if (kernel_table(Device::cuda).top_k.exists()) return;
  Tensor x = Tensor::zeros({2, 3}, DType::f32, Device::cuda);
  BOOST_CHECK_EXCEPTION(top_k(x, 2), Error, [](const Error& error) {
    return std::string(error.what()) ==
           "top_k: there is no kernel for it on cuda; move its operands to the CPU, x.to(Device::cpu), or run with "
           "--device cpu";
  });
}

BOOST_AUTO_TEST_SUITE_END()

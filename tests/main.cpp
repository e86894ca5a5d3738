// Every suite is this main and the .cpp files of one folder.
#define BOOST_TEST_MODULE fovea
#include <boost/test/unit_test.hpp>

#include "tensor/kernels.h"

/// Device memory is freed with the tensors that hold it: none is left when all tests have run.
struct NoDeviceMemoryIsLeft {
  void teardown() const {
    if (!fovea::cuda_is_available()) return;
    fovea::release_cache(fovea::Device::cuda);  // of constants, which are shared by all
    BOOST_TEST(fovea::allocator_statistics(fovea::Device::cuda).bytes_in_use == 0u);
  }
};
BOOST_TEST_GLOBAL_FIXTURE(NoDeviceMemoryIsLeft);

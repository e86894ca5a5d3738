// The headers of formulas: they compile by themselves, without kernels and without SIMD.
#include <boost/test/unit_test.hpp>

#include "nn/optimizer_formulas.h"
#include "tensor/formula/dual.h"
#include "tensor/formula/expression.h"
#include "tensor/formula/functor_list.h"
#include "tensor/formula/functors.h"
#include "tensor/formula/list.h"
#include "tensor/formula/math.h"
#include "tensor/formula/number.h"
#include "tensor/formula/philox.h"
#include "tensor/formula/recorded.h"
#include "tensor/formula/reductions.h"
#include "tensor/formula/row.h"
#include "tensor/formula/target.h"
#include "tensor/formula/truths.h"

using namespace fovea;

namespace {

template <class T>
concept IsComplete = requires {
  sizeof(T);
};

// Asked here and not in the test: whether a type is complete is decided once for each file.
static_assert(!IsComplete<Vec<float>>, "a header of tensor/formula includes tensor/cpu/simd.h");

}  // namespace

BOOST_AUTO_TEST_SUITE(formula_headers)

/// A formula runs on plain numbers, which is all that a new device has to offer at first.
BOOST_AUTO_TEST_CASE(formulas_run_on_numbers_alone) {
  BOOST_TEST((Affine{-2, 1}(3.0)) == -5.0);
  const Dual<double> y = Square{}(Dual<double>::input(3.0, true));
  BOOST_TEST(y.value == 9.0);
  BOOST_TEST(y.tangent == 6.0);
  const auto [p, velocity] = formula::MomentumUpdate{.rate = 0.5, .momentum = 0.25, .decay = 0}(3.0, 1.0, 8.0, 2.0);
  BOOST_TEST(velocity == 8.0);
  BOOST_TEST(p == -3.0);
}

BOOST_AUTO_TEST_SUITE_END()

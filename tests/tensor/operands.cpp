// Patterns that operands must follow.
#include "tensor/operands.h"

#include "tests/refusal.h"
#include "tests/tensor/kernel_cases.h"

using namespace fovea;

namespace {

Tensor of(const Shape& shape, DType dtype = DType::f32) { return Tensor::zeros(shape, dtype); }

/// The message for an operand b that follows `pattern` or does not, beside a, f32 [2, 3, 5], which is [..., n].
std::string beside_a(const Tensor& b, const char* pattern) {
  const Tensor a = of({2, 3, 5});
  return message_of([&] { check("f", {{"a", a, "... n"}, {"b", b, pattern}}); });
}

const std::string end = ", beside a f32 or f64 [..., n], here f32 [2, 3, 5] on cpu";

}  // namespace

BOOST_AUTO_TEST_SUITE(operands_by_patterns, *cpu_only())

BOOST_AUTO_TEST_CASE(what_follows_its_pattern_passes) {
  for (const auto& [b, pattern] :
       std::initializer_list<std::pair<Tensor, const char*>>{{of({5}), "n"},
                                                             {of({2, 3}), "..."},
                                                             {of({2, 3, 7}), "... m"},
                                                             {of({7, 5}), "m n"},
                                                             {of({20}), "4n"},
                                                             {of({3, 5}), "* n"},
                                                             {of({}), "*"},
                                                             {of({5, 5}), "n n"},
                                                             {of({2, 3}, DType::f64), "f64 ..."},
                                                             {of({5}, DType::i32), "index n"},
                                                             {of({5}, DType::i64), "index n"},
                                                             {of({9}, DType::u8), "mask *"},
                                                             {of({9}, DType::boolean), "mask *"},
                                                             {of({9}, DType::boolean), "bool *"},
                                                             {of({5}, DType::bf16), "any n"},
                                                             {Tensor(), "?n"}})
    BOOST_TEST(beside_a(b, pattern) == "no error", pattern);
}

BOOST_AUTO_TEST_CASE(what_does_not_is_named_with_what_would_be_right) {
  BOOST_TEST(beside_a(of({4}), "n") == "f: b, f32 [4] on cpu, must be f32 [n]" + end);
  BOOST_TEST(beside_a(of({2, 5}), "n") == "f: b, f32 [2, 5] on cpu, must be f32 [n]" + end);
  BOOST_TEST(beside_a(of({}), "m") == "f: b, f32 [] on cpu, must be f32 [m]" + end);
  BOOST_TEST(beside_a(of({3, 2, 5}), "... n") == "f: b, f32 [3, 2, 5] on cpu, must be f32 [..., n]" + end);
  BOOST_TEST(beside_a(of({3, 5}), "... n") == "f: b, f32 [3, 5] on cpu, must be f32 [..., n]" + end);
  BOOST_TEST(beside_a(of({4, 3}), "m m") == "f: b, f32 [4, 3] on cpu, must be f32 [m, m]" + end);
  BOOST_TEST(beside_a(of({21}), "4n") == "f: b, f32 [21] on cpu, must be f32 [4n]" + end);
  BOOST_TEST(beside_a(of({5}, DType::f64), "n") == "f: b, f64 [5] on cpu, must be f32 [n]" + end);
  BOOST_TEST(beside_a(of({2, 3}), "f64 ...") == "f: b, f32 [2, 3] on cpu, must be f64 [...]" + end);
  BOOST_TEST(beside_a(of({9}, DType::i32), "mask *") == "f: b, i32 [9] on cpu, must be bool or u8 [*]" + end);
  BOOST_TEST(beside_a(of({9}, DType::u8), "bool *") == "f: b, u8 [9] on cpu, must be bool [*]" + end);
  BOOST_TEST(beside_a(of({4}, DType::i64), "index n") == "f: b, i64 [4] on cpu, must be i32 or i64 [n]" + end);
  BOOST_TEST(beside_a(of({5}), "index n") == "f: an index is i32 or i64, not f32");
  BOOST_TEST(beside_a(Tensor(), "n") == "f: b, undefined, must be f32 [n]" + end);
}

BOOST_AUTO_TEST_CASE(the_first_operand_is_real_unless_its_pattern_says_otherwise) {
  auto message = [](const Tensor& a, const char* pattern) {
    return message_of([&] { check("f", {{"a", a, pattern}}); });
  };
  BOOST_TEST(message(of({3}, DType::bf16), "n") == "f: computes in f32 or f64, not bf16; cast the tensor first");
  BOOST_TEST(message(of({3}, DType::bf16), "any n") == "no error");
  BOOST_TEST(message(of({}), "... n") == "f: a, f32 [] on cpu, must be f32 or f64 [..., n]");
  BOOST_TEST(message(Tensor(), "n") == "f: a, undefined, must be f32 or f64 [n]");
}

BOOST_AUTO_TEST_SUITE_END()

// Files of numpy, which are read into tensors on the CPU.
#include "tensor/format/npy.h"

#include <cmath>
#include <limits>

#include <fmt/core.h>

#include "tests/tensor/kernel_cases.h"
#include "tests/tensor/tensor_files.h"

using namespace fovea;

namespace {

/// A file of this header and data; versions from 2.0 on have four bytes of length.
std::string file_of(const std::string& header, const std::string& data, int version = 1) {
  std::string file = std::string("\x93NUMPY") + char(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += char(header.size() >> (8 * i) & 255);
  return file + header + data;
}

std::string refusal(const std::string& file) {
  return message_of([&] { parse_npy(bytes_of(file), "f"); });
}

/// The message with which a u8 file with this shape and `data_bytes` bytes of elements is refused.
std::string of_shape(const std::string& shape, std::size_t data_bytes) {
  return refusal(
      file_of("{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + "}", std::string(data_bytes, '1')));
}

struct Golden {
  std::string name;
  DType dtype;
  Shape shape;
};
const std::vector<Golden> goldens{{"f32.npy", DType::f32, {3, 4}},
                                  {"f64.npy", DType::f64, {2, 1, 3}},
                                  {"i32.npy", DType::i32, {5}},
                                  {"i64.npy", DType::i64, {2, 3}},
                                  {"u8.npy", DType::u8, {7}},
                                  {"bool.npy", DType::boolean, {1, 5}},
                                  {"scalar.npy", DType::f64, {}},
                                  {"empty.npy", DType::f32, {0, 4}},
                                  {"rank8.npy", DType::u8, {1, 2, 1, 2, 1, 3, 1, 2}},
                                  {"version2.npy", DType::f32, {3, 4}},
                                  {"version3.npy", DType::f32, {3, 4}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(npy, *cpu_only())

BOOST_AUTO_TEST_CASE(files_of_numpy_are_read) {
  for (auto& [name, dtype, shape] : goldens)
    BOOST_TEST(same(read_npy(golden(name)), golden_values(dtype, shape)), name);
}

BOOST_AUTO_TEST_CASE(a_file_in_fortran_order_is_read_with_its_strides) {
  Tensor x = read_npy(golden("fortran.npy"));
  BOOST_TEST((x.strides() == Shape{1, 2, 6}));
  BOOST_TEST(same(x, golden_values(DType::f32, {2, 3, 4})));
}

BOOST_AUTO_TEST_CASE(every_bit_is_read) {
  std::mt19937 random(12);
  for (auto [type, dtype] :
       {std::pair("<f4", DType::f32), std::pair("<f8", DType::f64), std::pair("<i4", DType::i32),
        std::pair("<i8", DType::i64), std::pair("|u1", DType::u8), std::pair("|b1", DType::boolean)}) {
    const Tensor x = random_bits(dtype, {5, 3, 17}, random);
    const std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': (5, 3, 17), }}", type);
    const std::string file = file_of(header, {reinterpret_cast<const char*>(x.address()), x.bytes()});
    const Tensor back = parse_npy(bytes_of(file), "f");
    BOOST_TEST(same(back, x), x.describe());
    BOOST_TEST(back.is_contiguous());
  }
}

BOOST_AUTO_TEST_CASE(half_precision_becomes_f32_as_numpy_widens_it) {
  const Tensor x = read_npy(golden("f16.npy"));
  BOOST_TEST((x.strides() == Shape{1, 4}));  // Fortran order
  BOOST_TEST(same(x, read_npy(golden("f16_as_f32.npy"))));
}

BOOST_AUTO_TEST_CASE(every_half_precision_number_is_its_sign_fraction_and_exponent) {
  std::string data;
  for (int bits = 0; bits < 65536; ++bits) data += {char(bits & 255), char(bits >> 8)};
  const Tensor x =
      parse_npy(bytes_of(file_of("{'descr': '<f2', 'fortran_order': False, 'shape': (65536,)}", data)), "f");
  for (int bits = 0; bits < 65536; ++bits) {
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float found = x.data<float>()[bits], infinity = std::numeric_limits<float>::infinity();
    BOOST_REQUIRE(std::signbit(found) == (bits >= 32768));
    if (exponent == 31 && fraction > 0)
      BOOST_REQUIRE(std::isnan(found));
    else
      BOOST_REQUIRE(std::abs(found) == (exponent == 31  ? infinity
                                        : exponent == 0 ? std::ldexp(float(fraction), -24)
                                                        : std::ldexp(float(1024 + fraction), exponent - 25)));
  }
}

BOOST_AUTO_TEST_CASE(types_that_tensors_do_not_have_are_named) {
  auto read = [](const char* name) { return message_of([&] { read_npy(golden(name)); }); };
  BOOST_TEST(read("big_endian.npy") ==
             "tests/goldens/big_endian.npy: is big-endian ('>f4'), expected <f4, <f8, <f2, <i4, <i8, |u1 or |b1; "
             "astype converts it");
  BOOST_TEST(contains(read("bf16.npy"), "has elements without a type ('<V2')"));
  BOOST_TEST(contains(read("structured.npy"), "has structured elements, expected plain numbers"));
  auto objects = refusal(file_of("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "x"));
  BOOST_TEST(contains(objects, "f: has Python objects ('|O')"));
}

BOOST_AUTO_TEST_CASE(what_is_not_a_file_is_named) {
  check_that_other_things_are_named([](const std::filesystem::path& path) { read_npy(path); }, ".npy");
}

BOOST_AUTO_TEST_CASE(a_file_cut_anywhere_is_refused) {
  for (const char* name : {"f32.npy", "f16.npy", "version2.npy", "fortran.npy"})
    check_that_every_cut_is_refused(contents(golden(name)), refusal);
  std::string whole = contents(golden("f32.npy"));
  BOOST_TEST(refusal(whole.substr(0, 100)) ==
             "f: the header has 118 bytes, the file 90 after its length: it was cut short");
  BOOST_TEST(refusal(whole.substr(0, 175)) ==
             "f: f32 [3, 4] takes 48 bytes, the file has 47 after its header: it was cut short");
  BOOST_TEST(refusal(whole + "x") ==
             "f: f32 [3, 4] takes 48 bytes, the file has 49 after its header; expected one array");
}

BOOST_AUTO_TEST_CASE(what_is_not_a_header_is_refused) {
  std::string descr = "'descr': '|u1'", order = "'fortran_order': False", shape = "'shape': (1,)";
  auto header = [](const std::string& text) { return refusal(file_of(text, "1")); };
  std::string all = "{" + descr + ", " + order + ", " + shape;
  BOOST_TEST(header(all + ", }  \n") == "no error");
  BOOST_TEST(header("{\"shape\":(1), \"fortran_order\":True,\"descr\":\"|u1\"}") == "no error");
  const std::string three = "expected a dictionary of descr, fortran_order and shape",
                    types = "expected a string, True or False, and a tuple";
  std::pair<std::string, std::string> cases[] = {
      {refusal("PK\3\4 a zip file"), R"(begins with 'PK\x03\x04 a', a .npy file with '\x93NUMPY')"},
      {refusal(file_of("{}", "", 4)), "is of version 4.0 of the format, expected 1.0, 2.0 or 3.0"},
      {refusal(file_of(std::string(70000, ' '), "", 2)), "the header would have 70000 bytes, expected at most 65535"},
      {refusal("\x93NUMPX 12"), R"(begins with '\x93NUMPX')"},
      {header(""), "the header is '', " + three},
      {header("[]"), "the header is '[]', " + three},
      {header(all), three},
      {header(all + "}x"), three},
      {header(all + std::string("}\0", 2)), three},
      {header(all + ", 'order': 1}"), three},
      {header("{" + descr + "," + order + "}"), three},
      {header("{" + shape + "," + order + ",'order':1}"), three},
      {header("{'descr"), three},
      {header("{'descr': 1, " + order + ", " + shape + "}"), types},
      {header("{" + descr + ", " + shape + ", 'fortran_order': 1}"), types},
      {of_shape("1", 1), types},
      {of_shape("(-1,)", 1), "the shape has '-1', expected whole numbers from 0 to 2^63 - 1"},
      {of_shape("(9223372036854775808,)", 1), "expected whole numbers from 0 to 2^63 - 1"},
      {of_shape("(1.5,)", 1), "the shape has '1.5', expected whole numbers from 0 to 2^63 - 1"},
      {of_shape("((1,),)", 1), "the shape has '[1]', expected whole numbers from 0 to 2^63 - 1"},
      {of_shape("(9223372036854775807, 2)", 1), "u8 [9223372036854775807, 2] is too large for any file"},
      {of_shape("(9223372036854775807, 2, 0)", 0), "is too large for any file"},
      {of_shape("(1,1,1,1,1,1,1,1,1)", 1), "has more than 8 dimensions"},
  };
  for (auto& [message, part] : cases)
    BOOST_TEST((message.starts_with("f: ") && contains(message, part)), message << " | " << part);
  BOOST_TEST(of_shape("(2L, 3L)", 6) == "no error");
}

BOOST_AUTO_TEST_CASE(a_size_that_the_file_does_not_have_costs_nothing) {
  auto before = allocator_statistics();
  BOOST_TEST(contains(of_shape("(137438953472,)", 1), "it was cut short"));
  BOOST_TEST(contains(refusal(file_of("{'descr': " + std::string(60000, '['), "")), "expected a dictionary"));
  BOOST_TEST(allocator_statistics().allocations == before.allocations);
}

BOOST_AUTO_TEST_CASE(a_bool_is_0_or_1) {
  std::string file = contents(golden("bool.npy"));
  file[file.size() - 2] = '\2';
  BOOST_TEST(refusal(file) == "f: element 3 is 2, a bool is 0 or 1");
}

BOOST_AUTO_TEST_CASE(damaged_files_are_read_or_refused_in_one_line) {
  const std::vector<std::string> tokens{"{",
                                        "}",
                                        "(",
                                        ")",
                                        ",",
                                        ":",
                                        "'",
                                        "'descr'",
                                        "'>f4'",
                                        "'|b1'",
                                        "True",
                                        "-1",
                                        "0",
                                        "\n",
                                        "L",
                                        "'shape': ()",
                                        "\"",
                                        "\xff",
                                        "<f8",
                                        "(0, 1)",
                                        "None",
                                        std::string(1, '\0'),
                                        "18446744073709551616",
                                        "4294967296"};
  std::mt19937 random(2025);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string whole = contents(golden(goldens[std::size_t(round / 2) % goldens.size()].name));
    int version = whole[6];
    std::size_t begin = version == 1 ? 10 : 12, data_begin = whole.find('\n') + 1;
    std::string header = whole.substr(begin, data_begin - begin), data = whole.substr(data_begin);
    // half of them get a header length that fits again: damage must be found deeper
    std::string file =
        round % 2 ? mutated(whole, tokens, random) : file_of(mutated(header, tokens, random), data, version);
    file.shrink_to_fit();  // so that a sanitizer sees a byte read too far
    accepted += accepts_or_explains([&] { parse_npy(bytes_of(file), "f"); }, "f: ");
  }
  BOOST_TEST(accepted > 100);  // some damage is in values and spaces
  BOOST_TEST(accepted < 15000);
}

BOOST_AUTO_TEST_SUITE_END()

#include "nn/schedule.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tests/nn/values.h"

using namespace fovea;
using namespace fovea::test;

static_assert(!std::is_default_constructible_v<Schedule>, "a schedule without a kind has no rate");

BOOST_AUTO_TEST_CASE(schedules_have_the_values_of_their_formulas) {
  struct Case {
    std::string description;
    std::int64_t updates, epoch;
    double rate;
  };
  std::vector<Case> cases = {
      {"constant(rate=0.25)", 0, 1, 0.25},
      {"constant(rate=0.25, warmup=10)", 0, 1, 0.025},
      {"constant(rate=0.25, warmup=10)", 4, 1, 0.125},
      {"constant(rate=0.25, warmup=10)", 9, 1, 0.25},
      {"constant(rate=0.25, warmup=10)", 1000, 9, 0.25},
      {"inverse_sqrt(peak=7e-4, warmup=4000)", 0, 1, 1e-7},
      {"inverse_sqrt(peak=7e-4, warmup=4000)", 1000, 1, 1e-7 + (7e-4 - 1e-7) / 4},
      {"inverse_sqrt(peak=7e-4, warmup=4000)", 4000, 1, 7e-4},
      {"inverse_sqrt(peak=7e-4, warmup=4000)", 16000, 1, 3.5e-4},
      {"inverse_sqrt(peak=7e-4, warmup=4000, init=0)", 2000, 1, 3.5e-4},
      {"noam(dim=256, warmup=100)", 0, 1, 1.0 / 16 / 1000},
      {"noam(dim=256, warmup=100)", 99, 1, 1.0 / 16 / 10},
      {"noam(dim=256, warmup=100, scale=2)", 399, 1, 2.0 / 16 / 20},
      {"cosine(rate=0.5, updates=100)", 0, 1, 0.5},
      {"cosine(rate=0.5, updates=100)", 50, 1, 0.25},
      {"cosine(rate=0.5, updates=100, floor=0.1)", 100, 1, 0.1},
      {"cosine(rate=0.5, updates=100, floor=0.1)", 1000, 1, 0.1},
      {"cosine(rate=0.5, updates=110, warmup=10)", 4, 1, 0.25},
      {"cosine(rate=0.5, updates=110, warmup=10)", 35, 1, 0.25 * (1 + std::sqrt(0.5))},
      {"halving(rate=1e-4, epoch=4)", 100000, 3, 1e-4},
      {"halving(rate=1e-4, epoch=4)", 0, 4, 0.5e-4},
      {"halving(rate=1e-4, epoch=4)", 0, 6, 0.125e-4},
      {"halving(rate=1, update=100, every=10)", 99, 50, 1},
      {"halving(rate=1, update=100, every=10)", 109, 50, 0.5},
      {"halving(rate=1, update=100, every=10)", 110, 50, 0.25},
  };
  for (const Case& c : cases)
    BOOST_TEST_CONTEXT(c.description << " after " << c.updates << " updates, epoch " << c.epoch)
  BOOST_TEST(std::abs(Schedule::parse(c.description).rate(c.updates, c.epoch) - c.rate) < 1e-15);
}

BOOST_AUTO_TEST_CASE(a_cosine_ends_with_the_training_unless_it_is_told_when) {
  BOOST_TEST(Schedule::parse("cosine(rate=0.5, warmup=10)", 110).rate(35) == 0.25 * (1 + std::sqrt(0.5)),
             boost::test_tools::tolerance(1e-15));
  BOOST_TEST(Schedule::parse("cosine(rate=0.5, updates=50)", 100).rate(50) == 0);
  BOOST_TEST(Schedule::parse("cosine(rate=0.5)", 100).str() == "cosine(rate=0.5, updates=100, warmup=0, floor=0)");
}

BOOST_AUTO_TEST_CASE(another_peak_is_the_largest_rate) {
  for (const char* text : {"constant(warmup=10)", "inverse_sqrt(warmup=20, init=0)", "noam(dim=64, warmup=15)",
                           "cosine(warmup=30)", "halving(epoch=9)"}) {
    const Schedule schedule = Schedule::parse(text, 100).with_peak(0.037);
    double largest = 0;
    for (std::int64_t u = 0; u < 100; ++u) largest = std::max(largest, schedule.rate(u));
    BOOST_TEST(std::abs(largest - 0.037) < 1e-12, text);
  }
  BOOST_TEST(error_of([] { Schedule::parse("cosine(floor=1e-4)", 100).with_peak(1e-5); }) ==
             "schedule 'cosine(rate=1e-05, updates=100, warmup=0, floor=0.0001)': floor is 0.0001; it must be at most "
             "the rate, 1e-05");
  BOOST_TEST(Schedule::parse("noam(warmup=15)").warmup() == 15);
  BOOST_TEST(Schedule::parse("halving").warmup() == 0);
}

BOOST_AUTO_TEST_CASE(a_description_reads_back_as_the_same_schedule) {
  for (const char* text : {"constant", "noam()", "inverse_sqrt(peak=0.00013)", " cosine ( rate = 1e-3 ,floor=1e-05 ) ",
                           "halving(update=100,every=7)"}) {
    Schedule schedule = Schedule::parse(text);
    Schedule again = Schedule::parse(schedule.str());
    BOOST_TEST(schedule.str() == again.str());
    for (std::int64_t u : {0, 3, 5000, 120000}) BOOST_TEST(schedule.rate(u, 5) == again.rate(u, 5));
  }
  BOOST_TEST(Schedule::parse("inverse_sqrt(warmup=100)").str() == "inverse_sqrt(peak=0.0005, warmup=100, init=1e-07)");
  BOOST_TEST(schedule_help().find("halving(rate=0.0001, epoch=4, every=1, update=0)\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_wrong_description_is_named_with_its_column) {
  auto error = [](const char* text) { return error_of([&] { Schedule::parse(text); }); };
  BOOST_TEST(error("inverse_sqr(peak=1)") ==
             "'inverse_sqr(peak=1)': no schedule 'inverse_sqr' (column 1); did you mean 'inverse_sqrt'?");
  BOOST_TEST(error("zigzag") ==
             "'zigzag': no schedule 'zigzag' (column 1); there are constant, inverse_sqrt, noam, cosine, halving");
  BOOST_TEST(error("noam(warmpu=10)") == "'noam(warmpu=10)': noam has no 'warmpu' (column 6); did you mean 'warmup'?");
  BOOST_TEST(error("noam(warmup=ten)") == "'noam(warmup=ten)': unexpected 't' (column 13); expected a number");
  BOOST_TEST(error("noam(warmup=nan)") ==
             "'noam(warmup=nan)': warmup is nan (column 6); it must be a whole number from 1 to 1000000000000");
  BOOST_TEST(error("noam(warmup=0)") ==
             "'noam(warmup=0)': warmup is 0 (column 6); it must be a whole number from 1 to 1000000000000");
  BOOST_TEST(error("cosine(warmup=1.5)") ==
             "'cosine(warmup=1.5)': warmup is 1.5 (column 8); it must be a whole number from 0 to 1000000000000");
  BOOST_TEST(error("constant(rate=1e308)") ==
             "'constant(rate=1e308)': rate is 1e+308 (column 10); it must be a number from 0 to 1e+100");
  for (const char* number : {"1e999", "+1e999", "1e-400"})
    BOOST_TEST(error(fmt::format("constant(rate={})", number).c_str())
                       .find("is too large or too small (column 15); write 0, or a number of 2.3e-308 to 1.7e308") !=
                   std::string::npos,
               number);
  BOOST_TEST(error("constant(rate=+1e-3)") == "");
  BOOST_TEST(error("cosine(rate=1e-3,)") ==
             "'cosine(rate=1e-3,)': unexpected ')' (column 18); expected one of rate, updates, warmup, floor");
  BOOST_TEST(error("0.001") ==
             "'0.001': no schedule '0.001' (column 1); there are constant, inverse_sqrt, noam, cosine, halving");
  BOOST_TEST(error("  inverse-sqrt") ==
             "'  inverse-sqrt': no schedule 'inverse-sqrt' (column 3); did you mean 'inverse_sqrt'?");
  BOOST_TEST(error("cosine(floor=0.01)") ==
             "schedule 'cosine(floor=0.01)': floor is 0.01; it must be at most the rate, 0.001");
  BOOST_TEST(error("noam(warmup=1,dim=2,warmup=2)") ==
             "'noam(warmup=1,dim=2,warmup=2)': warmup is given twice (column 21)");
  BOOST_TEST(error("noam(warmup=1") == "'noam(warmup=1': ends too early (column 14); expected ',' or ')'");
  BOOST_TEST(error("noam(warmup 1)") == "'noam(warmup 1)': unexpected '1' (column 13); expected '='");
  BOOST_TEST(error("noam(dim=4) x") == "'noam(dim=4) x': unexpected 'x' (column 13); expected the end");
}

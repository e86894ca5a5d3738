#include "experiments/support/program/csv.h"

#include <boost/test/unit_test.hpp>

using namespace fovea;

BOOST_AUTO_TEST_SUITE(csv)

BOOST_AUTO_TEST_CASE(a_field_is_quoted_where_it_must_be) {
  BOOST_TEST(csv_field("a b;c") == "a b;c");
  BOOST_TEST(csv_field("x,y") == "\"x,y\"");
  BOOST_TEST(csv_field("x\r\n\"z\"") == "\"x\r\n\"\"z\"\"\"");
  BOOST_TEST(csv_row({"step", "", "note, \"quoted\""}) == "step,,\"note, \"\"quoted\"\"\"\n");
  BOOST_TEST(csv_row({}) == "\n");
}

BOOST_AUTO_TEST_SUITE_END()

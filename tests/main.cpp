// Every suite is this main and the .cpp files of one folder.
#define BOOST_TEST_MODULE fovea
#include <boost/test/unit_test.hpp>

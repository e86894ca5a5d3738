// Curves for TensorBoard: the bytes of the file that a run's log writes beside itself.
#include <cstring>
#include <map>

#include <boost/test/unit_test.hpp>

#include "experiments/support/program/run_log.h"
#include "tests/files.h"

using namespace fovea;

namespace {

template <class T>
T number_at(std::string_view bytes, std::size_t at) {
  T value;
  BOOST_REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The fields of a protobuf message, as bytes by number; each occurs once here.
std::map<std::uint64_t, std::string> fields_of(std::string_view bytes) {
  std::map<std::uint64_t, std::string> fields;
  std::size_t at = 0;
  auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number_at<unsigned char>(bytes, at++);
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  while (at < bytes.size()) {
    const std::uint64_t key = varint(), kind = key & 7;
    if (kind == 0) {
      fields[key >> 3] = std::to_string(varint());
      continue;
    }
    BOOST_REQUIRE((kind == 1 || kind == 2 || kind == 5));
    const std::uint64_t size = kind == 1 ? 8 : kind == 5 ? 4 : varint();
    fields[key >> 3] = std::string(bytes.substr(at, size));
    at += size;
  }
  BOOST_TEST(at == bytes.size());
  return fields;
}

/// CRC-32C, bit by bit (RFC 3720).
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = 0xffffffff;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0x82f63b78 : 0);
  }
  return ~sum;
}

std::uint32_t masked(std::uint32_t checksum) { return ((checksum >> 15) | (checksum << 17)) + 0xa282ead8u; }

/// "tag step value" for each point of a file; checks everything else that it has.
std::vector<std::string> points_of(const std::filesystem::path& path) {
  const std::string file = contents(path);
  std::vector<std::string> points;
  for (std::size_t at = 0; at < file.size();) {
    const auto length = number_at<std::uint64_t>(file, at);
    BOOST_REQUIRE(at + 16 + length <= file.size());
    BOOST_TEST(number_at<std::uint32_t>(file, at + 8) == masked(crc32c(std::string_view(file).substr(at, 8))));
    const std::string event = file.substr(at + 12, length);
    BOOST_TEST(number_at<std::uint32_t>(file, at + 12 + length) == masked(crc32c(event)));
    auto fields = fields_of(event);
    BOOST_TEST(number_at<double>(fields.at(1), 0) > 1.7e9);  // seconds since 1970
    if (at == 0) {
      BOOST_TEST(fields.at(3) == "brain.Event:2");
    } else {
      auto value = fields_of(fields_of(fields.at(5)).at(1));
      points.push_back(fmt::format("{} {} {}", value.at(1), fields.at(2), number_at<float>(value.at(2), 0)));
    }
    at += 16 + length;
  }
  return points;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensorboard)

BOOST_AUTO_TEST_CASE(numbers_of_the_log_are_points_also_where_the_log_is_continued) {
  BOOST_TEST(crc32c("123456789") == 0xe3069283u);
  const Folder folder;
  const Json lines[] = {{{"update", 1}, {"epoch", 0}, {"loss", 2.5}, {"note", "text"}},
                        {{"update", 128}, {"loss", -1e-30}, {"dev", {{"σ", 7}, {"x", nullptr}}}},
                        {{"update", 1LL << 40}, {"loss", 1e30}}};
  const std::vector<std::string> points{"training/loss 1 2.5", "training/loss 128 -1e-30", "development/σ 128 7",
                                        "development/x 128 nan", "training/loss 1099511627776 1e+30"};
  const auto written = [&] { return points_of(folder / tensorboard_file); };
  {
    RunLog log(folder / "log.jsonl", 0);
    for (const Json& line : lines) log.write(line);
    BOOST_TEST(written() == points, boost::test_tools::per_element());
  }
  RunLog resumed(folder / "log.jsonl", 200);
  BOOST_TEST(written() == std::vector(points.begin(), points.end() - 1), boost::test_tools::per_element());
  resumed.write(lines[2]);
  BOOST_TEST(written() == points, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

// Curves for TensorBoard: the file's bytes, and that a run that was killed leaves the file of one that was not.
#include "experiments/support/program/tensorboard.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>

#include <boost/test/unit_test.hpp>

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

struct Point {
  std::string tag;
  std::int64_t step;
  float value;
  bool operator==(const Point&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Point& point) {
  return out << point.tag << " " << point.step << " " << point.value;
}

std::uint32_t masked(std::uint32_t checksum) { return ((checksum >> 15) | (checksum << 17)) + 0xa282ead8u; }

/// The points of a file; checks everything else that it has.
std::vector<Point> points_of(const std::filesystem::path& path) {
  const std::string file = contents(path);
  std::vector<Point> points;
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
      points.push_back({value.at(1), std::int64_t(std::stoull(fields.at(2))), number_at<float>(value.at(2), 0)});
    }
    at += 16 + length;
  }
  return points;
}

const std::filesystem::path path_in(const Folder& folder) { return folder.path / tensorboard_file; }

/// A run's points up to this step.
void write(TensorBoardFile& file, std::int64_t first, std::int64_t last) {
  for (std::int64_t step = first; step <= last; step += 10) {
    file.scalar("loss", step, 1.0 / double(step + 1));
    if (step % 100 == 0) file.scalar("development/accuracy", step, 0.5);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tensorboard)

BOOST_AUTO_TEST_CASE(checksums_are_those_of_rfc_3720) {
  std::string ascending;
  for (char byte = 0; byte < 32; ++byte) ascending += byte;
  BOOST_TEST(crc32c("") == 0u);
  BOOST_TEST(crc32c("123456789") == 0xe3069283u);
  BOOST_TEST(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  BOOST_TEST(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
  BOOST_TEST(crc32c(ascending) == 0x46dd794eu);
}

BOOST_AUTO_TEST_CASE(points_are_written_as_they_are_read) {
  Folder folder;
  TensorBoardFile file(path_in(folder));
  const std::vector<Point> points{
      {"loss", 0, 2.5f}, {"loss", 127, -1e-30f}, {"a/σ", 128, 0}, {"loss", 1LL << 40, 1e30f}, {"", 1LL << 40, 1}};
  for (const Point& point : points) file.scalar(point.tag, point.step, point.value);
  file.sync();
  BOOST_TEST(points_of(path_in(folder)) == points, boost::test_tools::per_element());
  file.scalar("loss", 1LL << 41, NAN);
  BOOST_TEST(std::isnan(points_of(path_in(folder)).back().value));
  BOOST_TEST(message_of([&] { file.scalar("loss", 3, 0); }) ==
             path_in(folder).string() + ": step 3 comes after step 2199023255552");
  TensorBoardFile again(path_in(folder));
  BOOST_TEST(points_of(path_in(folder)).empty());
}

BOOST_AUTO_TEST_CASE(a_killed_run_goes_on_as_if_it_had_never_stopped) {
  Folder whole, killed;
  TensorBoardFile uninterrupted(path_in(whole));
  write(uninterrupted, 0, 500);
  TensorBoardFile first(path_in(killed));
  write(first, 0, 340);
  const std::string so_far = contents(path_in(killed));
  // the last checkpoint is of step 300; of what came after it, any number of bytes reached the disk
  std::size_t cut = so_far.size();
  for (std::size_t lost = 0; lost < 150; lost += 7) {
    std::ofstream(path_in(killed), std::ios::binary) << so_far.substr(0, cut - lost) << std::string(lost % 3, '\0');
    TensorBoardFile resumed = TensorBoardFile::resume(path_in(killed), 300);
    write(resumed, 310, 500);
    BOOST_TEST(points_of(path_in(killed)) == points_of(path_in(whole)), boost::test_tools::per_element());
    BOOST_TEST(contents(path_in(killed)).size() == contents(path_in(whole)).size());
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_is_missing_or_just_begun_begins_anew_and_another_is_refused) {
  Folder folder;
  for (const std::string& begun : {std::string(), std::string(20, '\0')}) {
    std::ofstream(path_in(folder), std::ios::binary) << begun;
    if (begun.empty()) std::filesystem::remove(path_in(folder));
    TensorBoardFile::resume(path_in(folder), 100).scalar("loss", 101, 1);
    BOOST_TEST(points_of(path_in(folder)) == (std::vector<Point>{{"loss", 101, 1}}), boost::test_tools::per_element());
  }
  const std::string other(100, 'x');
  std::ofstream(path_in(folder)) << other;
  BOOST_TEST(message_of([&] { TensorBoardFile::resume(path_in(folder), 1); }) ==
             path_in(folder).string() + ": is not a file of TensorBoard's");
  BOOST_TEST(contents(path_in(folder)) == other);
  BOOST_TEST(contains(message_of([&] { TensorBoardFile(folder / "no" / "file"); }), "cannot be written: No such file"));
}

BOOST_AUTO_TEST_SUITE_END()

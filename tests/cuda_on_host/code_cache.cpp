// The files in which compiled kernels are kept.
#include "cuda/code_cache.h"

#include <fstream>

#include <boost/test/unit_test.hpp>

#include "tests/files.h"

using namespace fovea;

namespace {

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(code_cache)

BOOST_AUTO_TEST_CASE(code_is_found_under_its_key_and_no_other) {
  Folder folder;
  const std::filesystem::path kept = folder / "not" / "there";
  BOOST_TEST(!cuda::kept_code(kept, "sm_90 text"));
  const std::string code(
      "\x7f"
      "ELF\0\n\xff",
      7);
  cuda::keep_code(kept, "sm_90 text", code);
  BOOST_TEST((cuda::kept_code(kept, "sm_90 text") == code));
  BOOST_TEST(!cuda::kept_code(kept, "sm_80 text"));
  BOOST_TEST(!cuda::kept_code({}, "sm_90 text"));
  cuda::keep_code({}, "sm_90 text", code);  // an empty folder keeps nothing, and is no error
}

BOOST_AUTO_TEST_CASE(a_damaged_file_is_no_code) {
  Folder folder;
  const std::string code(1000, 'c');
  cuda::keep_code(folder / "", "key", code);
  const std::filesystem::path file = files_of(folder / "").at(0);
  for (std::uintmax_t bytes : {std::uintmax_t{0}, std::uintmax_t{10}, std::filesystem::file_size(file) - 1}) {
    cuda::keep_code(folder / "", "key", code);
    std::filesystem::resize_file(file, bytes);
    BOOST_TEST(!cuda::kept_code(folder / "", "key"), bytes << " bytes");
  }
  cuda::keep_code(folder / "", "key", code);
  std::fstream(file, std::ios::in | std::ios::out | std::ios::binary).seekp(-3, std::ios::end).put('d');
  BOOST_TEST(!cuda::kept_code(folder / "", "key"));
}

BOOST_AUTO_TEST_CASE(files_that_were_written_first_make_room) {
  Folder folder;
  const std::string code(1000, 'c');
  for (int k = 0; k < 6; ++k) {
    cuda::keep_code(folder / "", fmt::format("key {}", k), code, 4000);
    for (const auto& file : files_of(folder / ""))  // an hour goes by
      std::filesystem::last_write_time(file, std::filesystem::last_write_time(file) - std::chrono::hours(1));
  }
  BOOST_TEST(files_of(folder / "").size() == 3u);
  BOOST_TEST(!cuda::kept_code(folder / "", "key 0"));
  BOOST_TEST(cuda::kept_code(folder / "", "key 5").has_value());
}

BOOST_AUTO_TEST_CASE(a_folder_that_cannot_be_written_is_no_error) {
  Folder folder;
  std::ofstream(folder / "file") << "no folder";
  cuda::keep_code(std::filesystem::path(folder / "file") / "kernels", "key", "code");
  BOOST_TEST(!cuda::kept_code(std::filesystem::path(folder / "file") / "kernels", "key"));
}

BOOST_AUTO_TEST_SUITE_END()
